package idle

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// Info describes a live connection during a [Tracker.Visit].
type Info struct {
	Owner any           // what was passed to Track; on an event loop, use it only in the visit
	Phase string        // Policy.Name of its phase
	Age   time.Duration // see [Conn.Age]
	Idle  time.Duration // see [Conn.Idle]
	Busy  bool          // see [Tracker.Drain]; unread and unsent bytes aren't looked for

	// EndsIn is the time until the connection ends if nothing moves: no byte, no beat, no close. It
	// is zero or negative if that is overdue. EndsBy is the limit that ends it, ReasonDrain for a
	// drain, or 0 if nothing ends it. Of two that come within two ticks of each other, it may be
	// either.
	EndsIn time.Duration
	EndsBy Reason

	conn *Conn
	last clock.Stamp // of its last use
}

// Label returns the connection's name; see [Options].Label. Call it in the visit.
func (i *Info) Label() string {
	c := i.mustBeVisited("Label")
	return c.shard.tracker.label(c.owner)
}

// Policy returns the policy that is in force for the connection. Call it in the visit.
func (i *Info) Policy() Policy { return i.mustBeVisited("Policy").phase.Load().Policy() }

// Unsent returns how many bytes wait for the peer, as far as [Hooks].Unsent can tell, or 0 while no
// write waits. Call it in the visit.
func (i *Info) Unsent() (n int) {
	c := i.mustBeVisited("Unsent")
	ask := c.hooks.Unsent
	if ask == nil || !c.out.waits() || !c.Live() {
		return 0
	}
	c.shard.tracker.calls.Guard("Unsent", func() { n = max(ask(c.owner), 0) })
	return n
}

// End ends the connection as [Conn.End] does, busy or not. Any goroutine may call it, also after
// the visit.
func (i *Info) End(cause string) { i.mustBeVisited("End").End(cause) }

// EndIfIdle ends the connection as [Info.End] does, but not if it's busy, as for a [Tracker.Drain],
// or has been used since it was visited. So it cuts no request.
func (i *Info) EndIfIdle(cause string) {
	dismissal{conn: i.mustBeVisited("EndIfIdle"), reason: ReasonShed, cause: cause, last: i.last}.post()
}

// mustBeVisited returns the connection of i. It panics if i is not from a visit.
func (i *Info) mustBeVisited(method string) *Conn {
	if i.conn == nil {
		panic("idle: " + method + " of a zero Info; use the one that Visit passes to its function")
	}
	return i.conn
}

// Visit calls a function for every connection, and returns when all were visited. A connection that
// is tracked throughout is visited at least once; twice is rare. One that comes or ends meanwhile
// may be left out.
//
// The connections of a shard are visited in its passes, on its loop if it has one, a few hundred
// at a time. No activity waits for that, and nothing is allocated. The calls come one after the
// other, from several goroutines, and none comes after Visit has returned. The function must neither
// block nor call runtime.Goexit, because timeouts wait for it. A panic in it is logged and counted.
//
// Visit fails with [ErrClosed] if the tracker is closed, and with the error of ctx if ctx is done
// first, for example because an event loop is blocked. It panics if visit is nil. Any goroutine may
// call it, but callbacks that run in a pass must not, because they would wait for themselves. These
// are Expire, Probe, Unsent, the functions of Options except OnEnds, and all callbacks on a loop.
func (t *Tracker) Visit(ctx context.Context, visit func(Info)) error {
	t.mustBeMade()
	if visit == nil {
		panic("idle: Visit of a nil function; pass one that is called with each connection")
	}
	var mu sync.Mutex
	over := false
	v := t.visit(func(s *Shard, some []*Conn) {
		mu.Lock()
		defer mu.Unlock()
		m := s.clock.Moment()
		for _, c := range some {
			if info, ok := s.info(c, m); ok && !over {
				t.calls.Guard("Visit", func() { visit(info) })
			}
		}
	})
	var err error
	select {
	case <-v.done:
		if t.isClosed() {
			err = ErrClosed
		}
	case <-ctx.Done():
		t.abandon(v)
		err = fmt.Errorf("idle: not all connections were visited: %w", context.Cause(ctx))
	}
	mu.Lock() // a shard may be in a step, also if it has been closed meanwhile
	defer mu.Unlock()
	over = true
	return err
}

// info describes c at the moment m. ok is false if c has ended.
func (s *Shard) info(c *Conn, m clock.Moment) (i Info, ok bool) {
	l := c.limits()
	snap, last := s.look(c, m, s.tracker.draining.Load()), c.lastUse()
	i = Info{
		Owner: c.owner, Phase: l.policy.Name, Age: m.Since(c.born.Load()), Idle: m.Since(last),
		Busy: c.isBusy(), conn: c, last: last,
	}
	snap.busy = i.Busy || c.out.waits()
	if end := l.ends(&snap); end.by != 0 {
		i.EndsIn, i.EndsBy = -m.After(end.at)+s.clock.Slack, end.by
	}
	return i, c.Live()
}

// A visit calls a function for some connections at a time, in the passes of the shards, until it was
// called for all. Each pass makes at least one step, and others with the budget that's left. A
// shard whose loop is blocked holds up no other one.
type visit struct {
	do     func(s *Shard, some []*Conn) // without a lock; the connections were live a moment ago, and OnTimeout may be running
	then   func(s *Shard)               // nil, or called when it has visited all of s
	shards atomic.Int32                 // that are not done
	done   chan struct{}                // nil, or closed when all are, or closed
}

// visits has the visits that a shard has to make. They take turns. The shard's lock guards them.
type visits struct {
	some atomic.Bool // there is one; may be loaded without the lock
	all  []progress
}

// A progress is how far a shard has come with a visit. It has to visit connSet.all[:left], from the
// last to the first. A connection moves only when another one is removed, and then to a lower place.
// So one that is there when the visit begins, and stays, is visited.
type progress struct {
	*visit
	left int
}

// visit begins a visit of all connections.
func (t *Tracker) visit(do func(s *Shard, some []*Conn)) *visit {
	v := &visit{do: do, done: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin(v)
	return v
}

// begin begins v. If v is under way, it begins again in all shards. t.mu must be held.
func (t *Tracker) begin(v *visit) {
	v.shards.Add(1) // so that v isn't done before the loop is
	for _, s := range slices.Concat(t.own, t.loops) {
		s.beginVisit(v)
	}
	v.finish()
	t.clock.Hurry()
}

// abandon takes v out of all shards.
func (t *Tracker) abandon(v *visit) {
	for s := range t.each {
		s.mu.Lock()
		s.visits.remove(s.visits.index(v))
		s.mu.Unlock()
	}
}

// finish notes that a shard is done.
func (v *visit) finish() {
	if v.shards.Add(-1) == 0 && v.done != nil {
		close(v.done)
	}
}

// beginVisit begins v in s. If v is under way, it begins again.
func (s *Shard) beginVisit(v *visit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed.Load() {
		s.visits.add(v)
	}
}

// add adds v, or lets it begin again.
func (q *visits) add(v *visit) {
	if i := q.index(v); i >= 0 {
		q.all[i].left = math.MaxInt
		return
	}
	v.shards.Add(1)
	q.all = append(q.all, progress{v, math.MaxInt})
	q.some.Store(true)
}

// index returns the place of v in all, or -1.
func (q *visits) index(v *visit) int {
	return slices.IndexFunc(q.all, func(p progress) bool { return p.visit == v })
}

// remove takes out the visit with the given index, if that is not -1.
func (q *visits) remove(i int) {
	if i >= 0 {
		v := q.all[i].visit
		q.all = slices.Delete(q.all, i, i+1)
		q.some.Store(len(q.all) > 0)
		v.finish()
	}
}

// close ends all visits before they are done.
func (q *visits) close() {
	for len(q.all) > 0 {
		q.remove(0)
	}
}

// next returns a visit, and which of n connections it visits next: from from to before to. It
// returns nil if there is none.
func (q *visits) next(n, most int) (v *visit, from, to int) {
	if len(q.all) == 0 {
		return nil, 0, 0
	}
	p := q.all[0]
	to = min(p.left, n)
	p.left = max(to-most, 0)
	copy(q.all, q.all[1:])
	q.all[len(q.all)-1] = p
	return p.visit, p.left, to
}

// stepped removes v if it has visited all connections, and reports whether it did.
func (q *visits) stepped(v *visit) (done bool) {
	i := q.index(v)
	if done = i >= 0 && q.all[i].left == 0; done {
		q.remove(i)
	}
	return done
}

// step visits a few connections. It reports whether there are others.
func (s *Shard) step() (more bool) {
	s.mu.Lock()
	v, from, to := s.visits.next(len(s.conns.all), s.stride)
	for _, c := range s.conns.all[from:to] {
		if c.Live() {
			s.visited = append(s.visited, c)
		}
	}
	s.mu.Unlock()
	if v == nil { // the shard is closed, or the visit was abandoned
		return false
	}
	v.do(s, s.visited)
	clear(s.visited)
	s.visited = s.visited[:0]
	s.mu.Lock()
	done := s.visits.stepped(v)
	s.mu.Unlock()
	if done && v.then != nil {
		v.then(s)
	}
	return s.visits.some.Load()
}
