package netconn

import (
	"errors"
	"net"
	"sync"

	"github.com/idlewheel/idlewheel/idle"
)

// Untrack ends the timeouts of a connection that stays open. It reports whether
// there were any: it returns false if the connection has timed out, was closed,
// or is not tracked.
//
// After Untrack the tracker counts the connection as Released. OnEnds of the tracker doesn't receive
// it, because it hasn't ended. No callback of the Setup begins for it, though one that has begun
// may still be running. The tracker no longer refers to the connection, so the garbage collector
// can collect it if its user forgets it. Reads and writes work as before. Track gives the
// connection timeouts again.
//
// Use Untrack for a connection that is handed over to someone else. To lift the
// limits only for a while, enter a phase without limits; that keeps the count,
// the age and the callbacks.
func (c *Conn) Untrack() bool {
	// A timeout may come between Live and Close. Then reads and writes fail as
	// after any timeout, but only the user closes the connection.
	track := c.tracking()
	return track.Live() && track.Release()
}

// Track puts a connection that is not tracked under the policy of t, as if it had
// just been accepted. Its age counts from now. Reads and writes may be under way.
//
// The [idle.Capacity] of t does not refuse the connection, but counts it.
//
// Track fails with idle.ErrTracked if the connection is tracked; call
// [Conn.Untrack] first, or [Conn.Enter] to change the phase only. It fails with
// the limit that has passed if the connection has timed out, with net.ErrClosed
// if it is closed, and for the reasons that [Conn.Init] has with t. owner is as there.
func (c *Conn) Track(t *idle.Tracker, owner any) error { return c.adopt(t, owner, false) }

// Retrack is Track for a connection that may be tracked already. The old tracking ends when the
// new one has begun. So if both use the same tracker, its Drain doesn't finish in between.
func (c *Conn) Retrack(t *idle.Tracker, owner any) error { return c.adopt(t, owner, true) }

// adopt is Track, or Retrack if the connection may be tracked.
func (c *Conn) adopt(t *idle.Tracker, owner any, again bool) error {
	if t == nil {
		return ErrNoTracker
	}
	now := c.tracking()
	wasLive := now.Live()
	switch {
	case c.flags.Load()&over != 0 || now.TimedOut():
		return c.trackError()
	case wasLive && !again:
		return idle.ErrTracked
	}
	// The new tracking has an idle.Conn of its own. A Read that is under way may still report to
	// the previous idle.Conn, with a stamp of the previous tracker's clock.
	track := new(idle.Conn)
	if err := t.Adopt(track, owner, &c.setup.Hooks); err != nil {
		return err
	}
	if wasLive && !now.Release() { // it has timed out, or was untracked or closed meanwhile
		track.Release()
		return c.adopt(t, owner, again)
	}
	c.credit.Take(c.Inspect().Acked) // bytes acknowledged before now do not count
	if !c.update(func(x *extra) bool {
		last := x.tracking(c)
		x.track = track
		return last == now && x.timeout == nil
	}) { // another goroutine has called Track, or it has timed out
		track.Release()
		return c.trackError()
	}
	c.flags.Or(retracked)
	c.prepare(t.Policy())
	c.adoptWaits(track)
	// Track and a concurrent Close see each other:
	//
	//    Track:  replace extra, then load flags
	//    Close:  set over, then load extra
	//
	// So Close finds the new track and closes it, or Track sees the flag here.
	if c.flags.Load()&over != 0 && track.Stop() {
		return c.trackError()
	}
	return nil
}

// adoptWaits makes a read and a write that are under way count. They began before track took its
// place. They may report their end to the new idle.Conn or to its predecessor:
//
//	reader: loads the predecessor, to report the end of the read
//	Track:  puts track in its place, whose read is waiting
//	reader: reports the end to the predecessor; track's read waits forever
//
// So Track sets a flag before it tries the lock, and each reader and writer
// checks the flags after it has unlocked. One of the two then ends the wait.
func (c *Conn) adoptWaits(track *idle.Conn) {
	c.flags.Or(readAdopted) // tracking begins with a wait for a read
	if c.writing.TryLock() {
		c.writing.Unlock()
	} else {
		track.AwaitWrite()
		c.flags.Or(writeAdopted)
	}
	c.endAdopted()
}

// endAdopted ends adopted waits whose read or write is not under way.
func (c *Conn) endAdopted() {
	for c.flags.Load()&readAdopted != 0 && c.reading.TryLock() {
		c.flags.And(^uint32(readAdopted))
		c.tracking().PauseRead()
		c.reading.Unlock()
	}
	for c.flags.Load()&writeAdopted != 0 && c.writing.TryLock() {
		c.flags.And(^uint32(writeAdopted))
		c.tracking().PauseWrite()
		c.writing.Unlock()
	}
}

// unlock unlocks c.reading or c.writing at the end of a read or a write.
func (c *Conn) unlock(direction *sync.Mutex) {
	direction.Unlock()
	if c.flags.Load()&(readAdopted|writeAdopted) != 0 {
		c.endAdopted()
	}
}

// errEnding is returned until the limit that has passed is known.
var errEnding = errors.New("idlenet: the connection is timing out")

// trackError returns the reason why Track has failed.
func (c *Conn) trackError() error {
	timeout, m := c.Timeout(), c.flags.Load()
	switch {
	case timeout != nil:
		return timeout
	case m&over != 0:
		return net.ErrClosed
	case c.trackedBy(m).TimedOut():
		return errEnding
	}
	return idle.ErrTracked // another goroutine has called Track
}

// extra holds what few connections have. It is never changed, only replaced.
type extra struct {
	timeout *idle.TimeoutError // the limit that has passed; nil before
	track   *idle.Conn         // replaces Conn.track if not nil
	address *address           // nil for a socket
	counted net.Conn           // what to close instead of Conn.inner, if not nil
	over    chan struct{}      // closed when the flag over is set; nil if nobody waits for that
	onClose func()             // to be called when c is closed; may be nil
}

// tracking returns the idle.Conn that tracks c, or did so last.
func (l *extra) tracking(c *Conn) *idle.Conn {
	if l == nil || l.track == nil {
		return &c.track
	}
	return l.track
}

func (c *Conn) tracking() *idle.Conn { return c.extra.Load().tracking(c) }

// trackedBy is tracking for a connection with the given flags. For most
// connections it need not load extra.
func (c *Conn) trackedBy(flags uint32) *idle.Conn {
	if flags&retracked == 0 {
		return &c.track
	}
	return c.tracking()
}

// update replaces extra with a copy that change has modified. If change returns false, update
// replaces nothing and returns false too.
func (c *Conn) update(change func(*extra) bool) bool {
	for {
		was, next := c.extra.Load(), new(extra)
		if was != nil {
			*next = *was
		}
		if !change(next) {
			return false
		}
		if c.extra.CompareAndSwap(was, next) {
			return true
		}
	}
}

// timedOut records the limit that has passed.
func (c *Conn) timedOut(err *idle.TimeoutError) {
	c.update(func(x *extra) bool { x.timeout = err; return true })
}
