package netconn

import "sync/atomic"

// A lock of a Conn admits one goroutine at a time. A sync.Mutex would do, but synctest doesn't see that a goroutine waits for one. So a test in virtual time would
// stand still if a callback writes to a connection while another Write waits for the peer.
type lock struct{ users atomic.Int32 } // the holder, and those that wait for it

// isHeld reports whether somebody holds l.
func (l *lock) isHeld() bool { return l.users.Load() > 0 }

// tryLock locks l if nobody holds it. It reports whether it has.
func (l *lock) tryLock() bool { return l.users.CompareAndSwap(0, 1) }

// lock locks l, which is c.reading or c.writing.
func (c *Conn) lock(l *lock) {
	if l.users.Add(1) > 1 {
		<-c.turn(l)
	}
}

// unlock unlocks l, and hands it over if somebody waits.
func (c *Conn) unlock(l *lock) {
	if l.users.Add(-1) > 0 {
		c.turn(l) <- struct{}{}
	}
}

// turn returns the channel by which l is handed over. It has room for one, so that unlock doesn't wait.
func (c *Conn) turn(l *lock) chan struct{} {
	for {
		if x := c.extra.Load(); x != nil && x.turns[0] != nil {
			if l == &c.reading {
				return x.turns[0]
			}
			return x.turns[1]
		}
		c.extra.Update(func(x *extra) {
			if x.turns[0] == nil {
				x.turns = [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}
			}
		})
	}
}
