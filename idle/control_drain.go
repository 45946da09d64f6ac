package idle

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// Drain says how [Tracker.Drain] ends all connections.
type Drain struct {
	// Duration is the time over which connections have their turns, at an even rate. If it's 0, all
	// have their turn at once.
	Duration time.Duration

	// CloseDelay is the time that a connection has to finish after OnDrain was called. If it is 0, the connection is
	// ended when OnDrain has returned. In HTTP, a client that makes a request meanwhile is told to leave. nginx calls
	// this keepalive_min_timeout.
	CloseDelay time.Duration

	// ForceAfter is the time after which all connections that are left are ended, busy or not. If
	// it is 0, busy connections are never cut. A connection that hasn't had its turn by then is
	// ended without OnDrain, so choose more than Duration.
	ForceAfter time.Duration
}

func (d *Drain) validate() error {
	if err := cmp.Or(
		checkDuration("Drain.Duration", d.Duration),
		checkDuration("Drain.CloseDelay", d.CloseDelay),
		checkDuration("Drain.ForceAfter", d.ForceAfter),
	); err != nil {
		return err
	}
	switch {
	case 0 < d.ForceAfter && d.ForceAfter < d.Duration:
		return fmt.Errorf("idle: Drain.ForceAfter is %v, shorter than the Duration of %v, so it would end connections before their turn; use at least the Duration, or 0", d.ForceAfter, d.Duration)
	case 0 < d.ForceAfter && d.ForceAfter < d.CloseDelay:
		return fmt.Errorf("idle: Drain.ForceAfter is %v, shorter than the CloseDelay of %v, so none would have that; use at least the CloseDelay, or 0", d.ForceAfter, d.CloseDelay)
	}
	return nil
}

// A Draining is a [Tracker.Drain] that is under way. Any goroutine may use it.
type Draining struct {
	tracker  *Tracker
	begun    time.Time
	grace    int64 // between OnDrain and the end, in ticks
	from     int64 // the tick before the first turn
	duration int64 // in ticks
	force    int64 // the tick at which all are ended, or 0
	over     sync.Once
	done     chan struct{}

	gone, ended, forced atomic.Int64 // connections that have left by themselves, and that the drain has ended, before ForceAfter and then
}

// Drain ends all connections. Each has its turn. In each shard, the connections that were idle longest
// when Drain was called have theirs first, and turns come at an even rate. Connections that are
// tracked meanwhile are included, and have their turns in what is left of the Duration. So stop
// accepting connections first.
//
// When a connection has its turn, OnDrain is called ([Hooks]), even if the connection is busy. It
// is ended Drain.CloseDelay later, with [ReasonDrain]. If it's busy then, it is ended when it
// falls idle, within five ticks. A connection is busy
//
//   - in a phase whose policy says so (Policy.NoInterrupt);
//   - while its owner does not wait for input (see [Conn.AwaitRead]), so in many servers
//     while a request is served;
//   - while output waits to be sent, or what was written is still being sent to a slow peer (Linux, TCP);
//   - if it has input that is not read yet;
//   - while OnDrain or OnTimeout is running.
//
// The drain is done when no connection is live. A second Drain takes the place of one that is under
// way. A connection that has been asked to finish is then asked again.
//
// When the drain is over, Options.Logger gets a line at slog.LevelInfo: how many connections have gone by themselves,
// closed, timed out, evicted or ended by End; how many the drain has ended, and how many more when ForceAfter had
// passed (forced); how many are left; and how long it took. Done is closed when the line has been written.
//
// A drain of a closed tracker is over at once. Drain fails if a value in d is invalid; the error names
// it. It may be called from any goroutine, callbacks included.
func (t *Tracker) Drain(d Drain) (*Draining, error) {
	t.mustBeMade()
	if err := d.validate(); err != nil {
		return nil, err
	}
	k := t.clock
	in := func(d time.Duration) int64 { return min(k.Ticks(d), clock.MaxTicks) }
	next := &Draining{
		tracker: t, begun: time.Now(), grace: in(d.CloseDelay),
		from: k.Now(), duration: in(d.Duration), done: make(chan struct{}),
	}
	if d.ForceAfter > 0 {
		next.force = next.from + in(d.ForceAfter) + 1
	}
	was := t.beginDrain(next)
	for _, over := range []*Draining{was, next} {
		if over != nil && over != t.draining.Load() {
			<-over.done // as soon as that's logged
		}
	}
	return next, nil
}

// beginDrain lets next take the place of the drain that is under way, which it returns.
func (t *Tracker) beginDrain(next *Draining) (was *Draining) {
	left := t.live()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		next.finish(0)
		return nil
	}
	if was = t.draining.Swap(next); was != nil {
		was.finish(left)
	}
	t.awaitEnds()
	v := &visit{do: func(s *Shard, some []*Conn) { s.takeTurns(next, some) }}
	v.then = func(s *Shard) {
		if s.giveTurns(next) {
			s.beginVisit(v)
		}
	}
	t.begin(v)
	t.checkEmpty()
	return was
}

// Draining returns the drain that is under way, or nil.
func (t *Tracker) Draining() *Draining {
	t.mustBeMade()
	return t.draining.Load()
}

// Left returns how many connections are live.
func (d *Draining) Left() int { return d.tracker.live() }

// Done returns a channel that is closed when no connection is live, when the drain is cancelled, when
// another one takes its place, and when the tracker is closed.
func (d *Draining) Done() <-chan struct{} { return d.done }

// Cancel ends the drain. Connections that it has not ended stay open, even if it has asked
// them to finish. Cancel doesn't undo what OnDrain has begun: the next response on an HTTP
// connection that was asked to finish still says Connection: close. After d is done, Cancel
// has no effect. The drain ends no connection once Cancel has returned, except for one that an
// event loop is ending at that moment. Callbacks of those that it has ended may still follow.
func (d *Draining) Cancel() {
	d.finish(d.tracker.live())
	<-d.done
	d.tracker.awaitEnds()
}

// finish ends d, with so many connections left. Its caller may hold locks, so the line is logged on a goroutine
// of its own. Close of the tracker waits for it.
func (d *Draining) finish(left int) {
	d.over.Do(func() {
		t, took := d.tracker, time.Since(d.begun)/time.Millisecond*time.Millisecond
		t.draining.CompareAndSwap(d, nil)
		t.calls.Running.Begin()
		go func() {
			defer t.calls.Running.End()
			defer close(d.done)
			t.opts.Logger.LogAttrs(context.Background(), slog.LevelInfo, "idle: a drain is over",
				slog.Int64("gone", d.gone.Load()), slog.Int64("ended", d.ended.Load()), slog.Int64("forced", d.forced.Load()),
				slog.Int("left", left), slog.Duration("took", took))
		}()
	})
}

// count counts a connection that has ended while d is under way.
func (d *Draining) count(p *endRecord) {
	switch {
	case p.err == nil || p.err.Reason != ReasonDrain:
		d.gone.Add(1)
	case p.forced:
		d.forced.Add(1)
	default:
		d.ended.Add(1)
	}
}

// turns are the turns of a shard's connections in a drain. They are given in two visits. The first one makes a
// histogram of idle times. The second one gives the most idle ones the first turns. So turns come at an even rate,
// whatever the idle times are, and no connection has to be compared with another one. The shard's lock guards them.
type turns struct {
	of    *Draining
	each  []oneTurn // of connSet.all
	in    []int64   // how many are in each group
	all   int64     // that were counted
	shift float64   // by how much of the time between two turns all are earlier, so that shards don't take theirs together
	given bool      // all were; in[g] is now how many have their turns before the next one of group g
}

// A oneTurn is the turn of one connection.
type oneTurn struct {
	turn  int64 // its tick; 0 if the connection isn't counted yet; ^g if it was, in group g
	again int64 // the tick at which the connection ends, unless it's in use; 0 before its owner was asked to finish
}

// Connections are in the same group if they have been idle for about the same time: for the same
// number of ticks, and from 128 ticks on to within a 64th.
const (
	groupBits  = 6
	idleGroups = (32 - groupBits + 1) << groupBits
)

// groupOf returns the group for a number of ticks.
func groupOf(ticks int64) int {
	n := uint32(max(ticks, 0))
	shift := max(bits.Len32(n)-groupBits-1, 0)
	return shift<<groupBits + int(n>>shift)
}

// takeTurns visits some connections, for a drain: the first time it counts them, and the second time it
// gives them their turns.
func (s *Shard) takeTurns(d *Draining, some []*Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tracker.draining.Load() != d {
		return
	}
	q := s.turnsOf(d)
	if q == nil {
		q = &turns{of: d, each: make([]oneTurn, len(s.conns.all)), in: make([]int64, idleGroups), shift: rand.Float64()}
		s.turns = q
	}
	m := clock.Moment{Now: s.clock.Recent()}
	for _, c := range some {
		if !s.conns.has(c) { // it has ended
			continue
		}
		turn := &q.each[c.index].turn
		switch {
		case !q.given && *turn == 0:
			g := groupOf(m.Now - m.Tick(c.lastUse()))
			*turn = ^int64(g)
			q.in[g]++
			q.all++
		case q.given && *turn <= 0:
			*turn = q.next(*turn, m)
			if s.bringForward(c, m); c.state.Load()&asking != 0 {
				s.awaitForce(c)
			}
		}
	}
}

// giveTurns makes s ready to give turns, when all connections are counted. It returns false if it was, or if d
// is over.
func (s *Shard) giveTurns(d *Draining) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.turnsOf(d)
	if q == nil || q.given {
		return false
	}
	before := int64(0)
	for g := idleGroups - 1; g >= 0; g-- {
		q.in[g], before = before, before+q.in[g]
	}
	q.given = true
	return true
}

// next returns the turn of c, given what turn has for it. One that was not counted, because it came later,
// has its turn at any time that is left.
func (q *turns) next(was int64, m clock.Moment) int64 {
	if was == 0 {
		return m.Now + 1 + rand.Int64N(max(q.of.from+q.of.duration-m.Now, 1))
	}
	before := &q.in[^was]
	*before++
	return q.of.from + 1 + int64(float64(q.of.duration)*(float64(*before)-q.shift)/float64(q.all))
}

// turnsOf returns the turns in the drain d, or nil if there are none yet. The lock must be held.
func (s *Shard) turnsOf(d *Draining) *turns {
	if d == nil || s.turns == nil || s.turns.of != d {
		return nil
	}
	return s.turns
}

// addTurn gives the connection that is about to be added its turn, or drops the turns of a drain that is over. The
// lock must be held.
func (s *Shard) addTurn() {
	q, turn := s.turns, int64(0)
	if s.tracker.draining.Load() != q.of {
		s.turns = nil
		return
	}
	if q.given {
		turn = q.next(0, clock.Moment{Now: s.clock.Recent()})
	}
	q.each = append(q.each, oneTurn{turn: turn})
}

// remove does what connSet.remove does.
func (q *turns) remove(i int) {
	last := len(q.each) - 1
	q.each[i] = q.each[last]
	q.each = q.each[:last]
}

// turnOf returns what the drain d does to c. The lock must be held.
func (s *Shard) turnOf(c *Conn, d *Draining) (of turn) {
	q := s.turnsOf(d)
	if q == nil || !s.conns.has(c) {
		return of
	}
	at := q.each[c.index]
	of = turn{at: at.turn, again: at.again, grace: d.grace, force: d.force}
	if of.at <= 0 {
		of.at = never
	}
	return of
}

// awaitForce puts c, whose OnTimeout is running, into the wheel, so that the ForceAfter of a drain is noticed. The
// lock must be held.
func (s *Shard) awaitForce(c *Conn) {
	if d := s.tracker.draining.Load(); d != nil && d.force != 0 {
		s.schedule(c, d.force)
	}
}

// forces reports whether the ForceAfter of d has passed. d may be nil.
func (d *Draining) forces(now int64) bool { return d != nil && d.force != 0 && d.force <= now }

// busyTicks is how often a drain looks whether a busy connection has fallen idle.
const busyTicks = 5

// depart ends c, whose grace in a drain is over. It returns true if c is in use. Then that is tried again
// in a few ticks, and until then its limits count.
func (s *Shard) depart(c *Conn, v decision) bool {
	if !s.dismiss(dismissal{conn: c, reason: ReasonDrain, forced: v.drain.forces(v.Now), drain: v.drain}) {
		return false
	}
	s.lookAgain(c, v.drain, v.Now+busyTicks)
	return true
}

// lookAgain lets the drain d look at c again at the given tick.
func (s *Shard) lookAgain(c *Conn, d *Draining, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.turnsOf(d); q != nil && s.conns.has(c) {
		q.each[c.index].again = at
	}
}
