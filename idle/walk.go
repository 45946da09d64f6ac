package idle

import (
	"slices"

	"github.com/idlewheel/idlewheel/wheel"
)

// walk calls visit for every connection, in the passes of the shards. It returns a
// channel that is closed when all were visited, or the tracker is closed.
func (b *base) walk(visit func(s *Shard, j job)) (done <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.startWalk(visit)
}

// startWalk is walk. b.mu must be held.
func (b *base) startWalk(visit func(s *Shard, j job)) (done <-chan struct{}) {
	w := &walk{visit: visit, done: make(chan struct{})}
	if b.closed {
		close(w.done)
		return w.done
	}
	b.walks.waiting = append(b.walks.waiting, w)
	if b.walks.current.Load() == nil {
		b.nextWalk()
	}
	return w.done
}

// abandonWalk drops the walk that would close done, unless it has begun.
func (b *base) abandonWalk(done <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.walks.waiting = slices.DeleteFunc(b.walks.waiting, func(w *walk) bool { return w.done == done })
}

// nextWalk starts the walk that has waited longest. b.mu must be held.
func (b *base) nextWalk() {
	b.walks.current.Store(nil)
	if len(b.walks.waiting) == 0 {
		return
	}
	w := b.walks.waiting[0]
	if w == b.walks.follows {
		b.walks.follows = nil
	}
	b.walks.waiting = slices.Delete(b.walks.waiting, 0, 1)
	w.shards = len(b.own) + len(b.loops)
	b.walks.current.Store(w)
	b.clock.hurry()
}

// finishWalk notes that the current walk, if there is one, is done with s. b.mu must be
// held.
func (b *base) finishWalk(s *Shard) {
	w := b.walks.current.Load()
	if w == nil || s.walked.Swap(w) == w {
		return
	}
	if w.shards--; w.shards == 0 {
		close(w.done)
		b.nextWalk()
	}
}

// endWalks ends all walks before they are done. b.mu must be held.
func (b *base) endWalks() {
	if w := b.walks.current.Swap(nil); w != nil {
		close(w.done)
	}
	for _, w := range b.walks.waiting {
		close(w.done)
	}
	b.walks.waiting = nil
}

// hasToWalk reports whether there is a walk that is not done with s.
func (s *Shard) hasToWalk() bool {
	w := s.tracker.walks.current.Load()
	return w != nil && s.walked.Load() != w
}

// step visits a few connections for the current walk. It reports whether it can go on
// at once. Connections that have come up in the wheel are left to collect: when all
// slots are done, the walk waits for these.
func (s *Shard) step() (more bool) {
	s.lock.Lock()
	w := s.tracker.walks.current.Load()
	if w == nil { // the tracker is closed
		s.lock.Unlock()
		return false
	}
	if s.walk != w {
		s.walk, s.sweep = w, wheel.Sweep{}
		s.tour.begin(s.wheel.Len())
	}
	more = s.wheel.Sweep(&s.sweep, s.stride, func(t *wheel.Timer) bool {
		c := connOf(t)
		if s.hasSeen(&c.entry) {
			return false
		}
		s.meet(c)
		return true
	})
	finished := !more && s.unseen == 0
	s.tour.on = !finished
	s.lock.Unlock()
	s.visit()
	if finished {
		s.walk = nil
		s.tracker.mu.Lock()
		defer s.tracker.mu.Unlock()
		s.tracker.finishWalk(s)
	}
	return more
}

// meet marks c, which the walk has not seen, and has it visited. The lock must be held.
func (s *Shard) meet(c *Conn) {
	s.see(&c.entry)
	s.unseen--
	if j := c.job(); j.state&live != 0 {
		s.visits = append(s.visits, j)
	}
}

// visit visits the connections that were met. It must be called without the lock.
func (s *Shard) visit() {
	for _, j := range s.visits {
		s.walk.visit(s, j)
	}
	clear(s.visits)
	s.visits = s.visits[:0]
}
