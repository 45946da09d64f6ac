package idle

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A walk visits all connections of a tracker. Each shard visits its own in its passes, with the
// budget that's left, and makes at least one step per pass. So a walk and a pass of a shard never
// run at the same time, and a shard whose loop is blocked holds up no other one.
//
// A connection that is tracked when the walk begins, and does not end meanwhile, is visited
// exactly once; see connSet.
type walk struct {
	// visit is called without a lock, on the goroutine of the pass. The connection was live
	// a moment ago. OnTimeout may be running.
	visit func(s *Shard, c *Conn)

	instead any           // nil, or equal for walks that may replace each other: a shard in which one waits needs no other
	shards  atomic.Int32  // that are not done
	done    chan struct{} // closed when all are, or closed
}

// A walkQueue has the walks that a shard has to make, one after the other.
type walkQueue struct {
	some atomic.Bool // there is one

	mu      sync.Mutex // guards what follows
	current *walk      // the one under way, or nil
	waiting []*walk
	closed  bool
}

// walk calls visit for every connection, in the passes of the shards. It returns a
// channel that is closed when all were visited, or the tracker is closed.
func (t *Tracker) walk(visit func(s *Shard, c *Conn)) (done <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.startWalk(nil, visit)
}

// startWalk is walk with t.mu held. instead is the walk's field.
func (t *Tracker) startWalk(instead any, visit func(s *Shard, c *Conn)) (done <-chan struct{}) {
	w := &walk{visit: visit, instead: instead, done: make(chan struct{})}
	shards := slices.Concat(t.own, t.loops)
	w.shards.Store(int32(len(shards)))
	for _, s := range shards {
		if !s.walks.add(w) {
			w.finish()
		}
	}
	t.clock.Hurry()
	return w.done
}

// abandonWalk keeps the walk that would close done from beginning in shards where it hasn't
// begun.
func (t *Tracker) abandonWalk(done <-chan struct{}) {
	for s := range t.each {
		s.walks.drop(done)
	}
}

// finish notes that a shard is done.
func (w *walk) finish() {
	if w.shards.Add(-1) == 0 {
		close(w.done)
	}
}

// add adds a walk. It returns false if the shard need not make it.
func (q *walkQueue) add(w *walk) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || w.instead != nil && slices.ContainsFunc(q.waiting, func(has *walk) bool { return has.instead == w.instead }) {
		return false
	}
	q.waiting = append(q.waiting, w)
	q.some.Store(true)
	return true
}

// drop removes the walk that would close done, unless it has begun.
func (q *walkQueue) drop(done <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(w *walk) bool { return w.done == done })
	q.some.Store(q.current != nil || len(q.waiting) > 0)
}

// get returns the walk that is under way, or begins the next one. It returns nil if there is
// none.
func (q *walkQueue) get() (w *walk, begins bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if begins = q.current == nil && len(q.waiting) > 0; begins {
		q.current = q.waiting[0]
		q.waiting = slices.Delete(q.waiting, 0, 1)
	}
	return q.current, begins
}

// finish ends the walk that is under way, unless close has done so. It reports whether
// there are others.
func (q *walkQueue) finish() (more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.current != nil {
		q.current.finish()
		q.current = nil
		q.some.Store(len(q.waiting) > 0)
	}
	return len(q.waiting) > 0
}

// close ends all walks of a shard before they are done.
func (q *walkQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range append(q.waiting, q.current) {
		if w != nil {
			w.finish()
		}
	}
	q.current, q.waiting, q.closed = nil, nil, true
	q.some.Store(false)
}

// step visits a few connections for the current walk. It reports whether it can go on.
func (s *Shard) step() (more bool) {
	w, begins := s.walks.get()
	if w == nil { // the shard is closed
		return false
	}
	s.lock.Lock()
	if begins {
		s.conns.beginWalk()
	}
	for _, c := range s.conns.visit(s.stride) {
		if c.Live() {
			s.visits = append(s.visits, c)
		}
	}
	more = s.conns.unvisited > 0
	s.lock.Unlock()
	for _, c := range s.visits {
		w.visit(s, c)
	}
	clear(s.visits)
	s.visits = s.visits[:0]
	return more || s.walks.finish()
}
