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
	"github.com/idlewheel/idlewheel/idle/internal/deadlines"
	"github.com/idlewheel/idlewheel/idle/internal/turns"
)

// A Query selects which connections a [Tracker.Census] lists, and their order. The zero
// Query lists none.
type Query struct {
	// Sort has the census list connections in this order.
	Sort Sort

	// Phases are the names of phases whose connections are listed. Nil means all.
	// All are counted in any case.
	Phases []string
}

// Sort is an order of connections.
type Sort uint8

// The orders of connections.
const (
	Unlisted   Sort = iota // none is listed
	MostIdle               // the longest time without activity first
	Oldest                 // the greatest age first
	NextToEnd              // first the one that ends soonest, if nothing moves until then
	MostMisses             // the most unanswered pings first
	MostUnsent             // the most bytes that wait for the peer first
	numSorts
)

// A Census describes a tracker's connections at one moment. It is read-only, and any goroutine
// may use it. For each connection that it lists it takes 16 bytes, and keeps the connection's
// memory from being freed.
type Census struct {
	At     time.Time     // when it began to visit connections
	Took   time.Duration // until all were visited and sorted
	Live   int           // connections that were visited
	Phases map[string]PhaseCensus
	Idle   Histogram // time since their last use, see [Conn.Idle]
	Age    Histogram // see [Conn.Age]

	// Unsent is how many bytes wait for peers, and WithUnsent on how many connections. Only those
	// on which a write waits count, and only if the adapter knows how much waits: idlegnet counts
	// what gnet holds back; idlenet and the HTTP adapters count the kernel's send buffer, on
	// Linux only.
	Unsent     uint64
	WithUnsent int

	tracker *Tracker
	at      clock.Moment
	ending  []uint32    // ending[i] is how many end within i ticks from at.Now on
	list    []candidate // the first one is the first of the order
}

// A PhaseCensus has what a census has found out about the phases of one name.
type PhaseCensus struct {
	Live  int    // connections
	Phase *Phase // one of the phases with that name
}

// Census visits all connections, in the passes of their shards, and counts them. No activity
// waits for it, and nothing is allocated for a connection that is not listed. Times are as of
// Census.At. Activity after that may be included already. Each connection that is there
// throughout is counted once. A connection that ends meanwhile may be left out. One that is
// tracked meanwhile usually is left out. So if many connections come and go while the census
// runs, Census.Live is lower than [Stats].Live, which is exact. Several censuses run one after
// the other.
//
// Census fails if q is invalid, with [ErrClosed] if the tracker is closed, and with the error of
// ctx if ctx is done first, for example because an event loop is blocked. Any goroutine may call
// it, but callbacks that run in a pass must not, because they would wait for themselves. These
// are Expire, Probe, Unsent, OnPass, the Filter of an operation, the functions of Options and
// Capacity except OnEnds, and all callbacks on a loop.
func (t *Tracker) Census(ctx context.Context, q Query) (*Census, error) {
	t.mustBeMade()
	if q.Sort >= numSorts {
		return nil, fmt.Errorf("idle: Query.Sort is %d; it must be one of the constants, such as MostIdle", q.Sort)
	}
	if t.isClosed() {
		return nil, ErrClosed
	}
	n := newCount(t, q)
	walked := t.walk(n.meet)
	select {
	case <-walked:
	case <-ctx.Done():
		t.abandonWalk(walked)
		n.stop()
		return nil, fmt.Errorf("idle: the census was not finished: %w", context.Cause(ctx))
	}
	if t.isClosed() {
		return nil, ErrClosed
	}
	return n.finish(), nil
}

// Ending returns how many connections end within d of c.At if nothing moves: no byte, no
// beat, no close. Those that are overdue are included. d is at most a minute.
func (c *Census) Ending(d time.Duration) (n int) {
	within := int64((c.at.Elapsed+min(d, forecastFor)-c.tracker.clock.Slack)/c.tracker.clock.Tick) - c.at.Now
	if within < 0 {
		return 0
	}
	return int(c.ending[min(within, int64(len(c.ending)-1))])
}

const forecastFor = time.Minute

// Len returns the number of connections that are listed.
func (c *Census) Len() int { return len(c.list) }

// Page describes n connections of the list, beginning with number from, where the first one is 0.
// It returns fewer at the end of the list. Each connection is described as it is now, in the
// order of the census. Those that have ended since the census are left out. Page fails for the
// same reasons as [Tracker.Census], and if from or n is negative.
func (c *Census) Page(ctx context.Context, from, n int) ([]Info, error) {
	if from < 0 || n < 0 {
		return nil, fmt.Errorf("idle: Page from %d of %d connections; neither can be negative", from, n)
	}
	if c.tracker.isClosed() {
		return nil, ErrClosed
	}
	from = min(from, len(c.list))
	return c.tracker.describe(ctx, c.list[from:from+min(n, len(c.list)-from)])
}

// A counting is a census that is under way.
type counting struct {
	sort   Sort
	phases []string

	mu      sync.Mutex // guards what follows
	stopped bool
	census  *Census
	met     [][]candidate // in pieces, so that no step has to copy all
	name    string        // of the phase of the last one
	inPhase *PhaseCensus
	byName  map[string]*PhaseCensus
	listed  bool // that phase is
}

// pieceOf is how many connections are in a piece of the list.
const pieceOf = 4096

func newCount(t *Tracker, q Query) *counting {
	c := &Census{tracker: t, ending: make([]uint32, int(forecastFor/t.opts.Tick)+2)}
	return &counting{sort: q.Sort, phases: q.Phases, census: c, byName: map[string]*PhaseCensus{}}
}

// begin sets the time of the census when the first connection is visited, because other walks may
// run before that. n.mu must be held.
func (n *counting) begin() {
	if c := n.census; c.At.IsZero() {
		c.At, c.at = time.Now(), c.tracker.clock.Moment()
	}
}

// stop makes the walk go on without the census.
func (n *counting) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped, n.met = true, nil
}

// meet counts a connection that the walk visits.
func (n *counting) meet(s *Shard, c *Conn) {
	unsent := s.unsent(c)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.begin()
	census, e := n.census, &c.entry
	phase := e.phase.Load().latest()
	if n.stopped || !c.Live() {
		return
	}
	snap := deadlines.Snapshot{Moment: census.at}
	e.snapshot(&snap)
	active, born := e.lastUse(), e.born.Load()
	census.Live++
	if name := phase.policy.Name; n.inPhase == nil || name != n.name {
		if n.byName[name] == nil {
			n.byName[name] = &PhaseCensus{Phase: phase.first}
		}
		n.name, n.inPhase = name, n.byName[name]
		n.listed = n.sort != Unlisted && (n.phases == nil || slices.Contains(n.phases, name))
	}
	n.inPhase.Live++
	census.Idle.note(census.at.Since(active))
	census.Age.note(census.at.Since(born))
	if unsent > 0 {
		census.Unsent += uint64(unsent)
		census.WithUnsent++
	}
	misses := missed(&snap, &phase.policy)
	f := snap.Forecast(phase.limits)
	if f.End.Terms != nil {
		if in := max(f.End.At-census.at.Now, 0); in < int64(len(census.ending)) {
			census.ending[in]++
		}
	}
	if !n.listed {
		return
	}
	key := uint32(census.at.Now + clock.MaxTicks) // of those that do not end
	switch {
	case n.sort == MostIdle:
		key = active.Bits()
	case n.sort == Oldest:
		key = born.Bits()
	case n.sort == MostMisses:
		key = uint32(-misses)
	case n.sort == MostUnsent:
		key = uint32(-min(unsent, math.MaxInt32))
	case f.End.Terms != nil:
		key = uint32(f.End.At)
	}
	if last := len(n.met) - 1; last < 0 || len(n.met[last]) == pieceOf {
		n.met = append(n.met, make([]candidate, 0, pieceOf))
	}
	last := &n.met[len(n.met)-1]
	*last = append(*last, candidate{Conn: c, Last: key})
}

// unsent returns how many bytes wait for c's peer, as far as its owner can tell.
func (s *Shard) unsent(c *Conn) (n int) {
	ask := c.hooks.Unsent
	if ask == nil || !c.out.waits() || !c.Live() {
		return 0
	}
	s.tracker.calls.Guard("Unsent", func() { n = max(ask(c.owner), 0) })
	return n
}

// finish returns the census after the walk.
func (n *counting) finish() *Census {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.begin()
	c := n.census
	for i := range c.ending[1:] {
		c.ending[i+1] += c.ending[i]
	}
	c.Phases = map[string]PhaseCensus{}
	for name, in := range n.byName {
		c.Phases[name] = *in
	}
	c.list = slices.Concat(n.met...)
	n.met, n.stopped = nil, true
	slices.SortFunc(c.list, turns.ByLast)
	c.Took = time.Since(c.At)
	return c
}

// Info describes a live connection.
type Info struct {
	Label string // see Options.Label
	Owner any    // what was passed to Track; on a loop, use it only there
	Phase string // Policy.Name of its phase

	Age     time.Duration // see [Conn.Age]
	IdleIn  time.Duration // since something arrived, except answers to pings; see [Heartbeat]
	IdleOut time.Duration // since something was sent, except pings
	Busy    bool          // see [Tracker.Drain]
	Misses  int           // pings that were not answered, in a row
	Unsent  int           // bytes that wait for the peer; see [Census]

	// Next is what is due next if nothing moves: "ping", "miss", "drain" or "end", or
	// empty if no limit counts. NextIn is the time until then; it is zero or negative if
	// that is overdue. NextBy is the limit that causes it.
	Next   string
	NextIn time.Duration
	NextBy Reason

	// EndsIn is the time until the connection ends if nothing moves. EndsBy is the limit
	// that ends it, or 0 if none does. Of two limits that pass within two ticks of each
	// other, it may be either.
	EndsIn time.Duration
	EndsBy Reason

	of *Conn
}

// End ends the connection as [Conn.End] does, unless it has ended since. Any goroutine may
// call it.
func (i *Info) End(cause string) {
	if i.of == nil {
		panic("idle: End of a zero Info; get one from Census.Page")
	}
	i.of.End(cause)
}

// describe describes connections that a census has met, in passes of their shards.
func (t *Tracker) describe(ctx context.Context, all []candidate) ([]Info, error) {
	infos := make([]Info, len(all))
	done := make(chan struct{})
	var left atomic.Int64
	left.Store(int64(len(all)) + 1)
	one := func() {
		if left.Add(-1) == 0 {
			close(done)
		}
	}
	for i, c := range all {
		s := c.Conn.shard
		if !s.do(func() {
			defer one()
			if ctx.Err() == nil && c.Conn.Live() {
				infos[i] = s.info(c.Conn)
			}
		}) {
			one()
		}
	}
	one()
	select {
	case <-done:
	case <-t.stop: // no loop runs a pass any more
	case <-ctx.Done():
		return nil, fmt.Errorf("idle: the page was not finished: %w", context.Cause(ctx))
	}
	if t.isClosed() {
		return nil, ErrClosed
	}
	return slices.DeleteFunc(infos, func(i Info) bool { return i.of == nil }), nil
}

// info describes c.
func (s *Shard) info(c *Conn) Info {
	e, m := &c.entry, s.clock.Moment()
	phase := e.phase.Load().latest()
	i := Info{
		Label: s.tracker.ends.label(c.owner), Owner: c.owner, Phase: phase.policy.Name,
		Age: m.Since(e.born.Load()), IdleIn: m.Since(e.in.stamp.Load()), IdleOut: m.Since(e.out.stamp.Load()),
		Busy: e.isBusy(), Unsent: s.unsent(c),
		of: c,
	}
	snap := deadlines.Snapshot{Moment: m}
	e.snapshot(&snap)
	i.Misses = missed(&snap, &phase.policy)
	f := snap.Forecast(phase.limits)
	until := func(d deadlines.Deadline) time.Duration { return -m.After(d.At) + s.clock.Slack }
	if f.Next.Terms != nil {
		i.Next, i.NextIn, i.NextBy = f.Next.What.String(), until(f.Next), Reason(f.Next.Terms.Limit)
	}
	if f.End.Terms != nil {
		i.EndsIn, i.EndsBy = until(f.End), Reason(f.End.Terms.Limit)
	}
	return i
}
