package idle

import (
	"cmp"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/batch"
	"github.com/idlewheel/idlewheel/idle/internal/callbacks"
	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// Options configures a tracker. Each field may be zero, which means the default.
// A nil *Options means all defaults. A pass is one run over the connections that are due. The driver is the
// goroutine that makes passes, except those on event loops.
type Options struct {
	// Tick is the resolution of all timeouts: 1 ms to 10 s. The default is [TickFor] the policy
	// that the tracker is made with. [Policy] says how late a timeout can be. A coarser tick
	// makes activity cheaper. While there is much activity, the process wakes up once per tick.
	// Otherwise it wakes up only for a timeout that may be due, or when something is asked of it.
	Tick time.Duration

	// Shards is the number of sets in which connections are kept, each with its
	// own lock. The default is GOMAXPROCS when New is called.
	Shards int

	// Budget limits how long the driver may work on timeouts within a tick, and how long a pass
	// on an event loop may take. The default is half a tick. The rest is deferred to the next
	// tick. While anything is deferred, passes over several shards run at the same time, so the
	// driver may take the budget on each processor. Expired connections take priority over those
	// that only need rescheduling. An event loop's next pass waits as long as the last one took, a tick at most.
	// Stats.Deferred counts the timeouts that are late, for this or another reason, and
	// Stats.BacklogAge is how long the oldest deferred connection has been waiting.
	Budget time.Duration

	// Logger logs panics of callbacks, and a line when a [Tracker.Drain] is over. The default is slog.Default().
	Logger *slog.Logger

	// Label returns the name of a connection in [End], [Info] and the log. It is called when
	// the connection ends or is listed: on the loop if there is one, otherwise in a pass or by
	// the goroutine that ends the connection. It may be called for several connections at the
	// same time, and must not block. Only the first 128 bytes are kept. The default is the
	// peer's address as text: what the owner's method KnownAddr returns or, without that,
	// RemoteAddr. An owner whose RemoteAddr may block, such as behind the PROXY protocol, needs
	// a KnownAddr that returns nil until the address is known.
	Label func(owner any) string

	// OnEnds, if not nil, receives each connection once, after it has ended for any reason. ends
	// is valid until OnEnds returns. The ends of about a tick come in one call. One goroutine at
	// a time calls OnEnds, and no pass waits for it, so it may block. If more than 65,536 ends
	// wait meanwhile, the rest is lost: Stats.EndsLost counts them. [LogEnds] returns such a
	// function. If OnEnds panics, that is logged, and it isn't called again with the same ends.
	OnEnds func(ends []End)
}

const (
	minTick   = time.Millisecond
	maxTick   = 10 * time.Second // clock.MaxTicks such ticks, times a few, must fit a Duration
	maxShards = 1 << 12
)

// complete returns o with defaults filled in, or an error that names an invalid field.
func (o *Options) complete(tick time.Duration) (Options, error) {
	var full Options
	if o != nil {
		full = *o
	}
	full.Tick = cmp.Or(full.Tick, tick)
	full.Shards = cmp.Or(full.Shards, runtime.GOMAXPROCS(0))
	full.Budget = cmp.Or(full.Budget, full.Tick/2)
	full.Logger = cmp.Or(full.Logger, slog.Default())
	if full.Label == nil {
		full.Label = label
	}
	switch {
	case full.Tick < minTick || full.Tick > maxTick:
		return full, fmt.Errorf("idle: Options.Tick is %v; it must be %v to %v, or 0 for a default", full.Tick, minTick, maxTick)
	case full.Shards < 0 || full.Shards > maxShards:
		return full, fmt.Errorf("idle: Options.Shards is %d; it must be 1 to %d, or 0 for GOMAXPROCS", full.Shards, maxShards)
	case full.Budget < 0 || full.Budget > full.Tick:
		return full, fmt.Errorf("idle: Options.Budget is %v; it must be at most the tick of %v, or 0 for half of it", full.Budget, full.Tick)
	}
	return full, nil
}

// TickFor returns the tick that suits a tracker whose connections are under the given policies.
// It is a 50th of the shortest of their limits, but at least 10 ms and at most 100 ms. New uses
// it for the policy that a tracker starts with. Call it if later phases have shorter limits. A
// limit shorter than a tick is refused, and rounding up to whole ticks makes a limit of a few
// ticks noticeably longer.
func TickFor(policies ...Policy) time.Duration {
	const finest, coarsest, share = 10 * time.Millisecond, 100 * time.Millisecond, 50
	shortest := coarsest * share
	for _, p := range policies {
		for _, d := range p.durations() {
			if d.value > 0 {
				shortest = min(shortest, d.value)
			}
		}
	}
	return max(shortest/share, finest)
}

// New returns a tracker that starts connections under the policy p. opts may be nil. New fails if p sets no limit, or
// if a value in p or opts is invalid; the error names it. While the tracker has connections it has a goroutine, so
// call [Tracker.Close] or [Tracker.CloseWhenEmpty] after use. A tracker that you drop unclosed is collected; its
// goroutine ends with the last connection, or when that one's limits would have passed.
func New(p Policy, opts *Options) (*Tracker, error) {
	full, err := opts.complete(TickFor(p))
	if err != nil {
		return nil, err
	}
	if !p.SetsLimit() {
		return nil, errNoLimit
	}
	t := new(Tracker)
	t.init(full)
	if t.phase, err = t.Phase(p); err != nil {
		return nil, err
	}
	for range full.Shards {
		t.own = append(t.own, t.newShard(nil))
	}
	return t, nil
}

// Tracker tracks connections and times them out. [New] makes one. Its methods may be called
// from any goroutine, callbacks included, unless they say otherwise. They panic on a nil or zero
// Tracker.
//
// A tracker has a goroutine while it has connections, and others while there is a backlog.
type Tracker struct {
	clock *clock.Clock
	phase *Phase // the phase of new connections
	opts  Options

	phased  bool // see NewPhased
	setting func(phase string, r Reason) string

	calls callbacks.Runner

	own  []*Shard      // shards that the driver passes over
	turn atomic.Uint32 // Track uses it to take them in turn

	// The driver's.
	driver   driver
	due      []*Shard    // shards of own that are due
	deferred atomic.Bool // the last passes over own have deferred something
	stall    stall
	stop     chan struct{} // closed when the tracker is

	pingless atomic.Bool // a connection has Hooks without Ping
	retiring atomic.Bool // CloseWhenEmpty was called

	ends      *batch.Reporter[End]
	recording atomic.Bool // ends are recorded
	byPhase   byName[reasonCount]
	causes    byName[atomic.Uint64] // of connections that were shed
	room      room

	draining atomic.Pointer[Draining] // nil if no drain is under way
	renewals visit                    // after policies were replaced

	mu     sync.Mutex // guards what follows
	loops  []*Shard   // shards of event loops
	closed bool
	past   Stats // of shards that were closed
}

// init prepares t for shards.
func (t *Tracker) init(opts Options) {
	t.opts = opts
	t.clock = clock.New(opts.Tick, t.hurry)
	t.stop = make(chan struct{})
	t.driver.signal = make(chan struct{}, 1)
	t.calls.Logger = opts.Logger
	t.room.tracker = t
	t.renewals.do = renewed
	var report func([]End)
	if opts.OnEnds != nil {
		report = func(all []End) { t.calls.Guard("OnEnds", func() { opts.OnEnds(all) }) }
		t.recording.Store(true)
	}
	t.ends = batch.New(opts.Tick, t.stop, report)
}

// mustBeMade panics if t was not made by New.
func (t *Tracker) mustBeMade() {
	if t == nil || t.clock == nil {
		panic("idle: a nil or zero Tracker; make one with New, and check its error (that of a gnet handler is nil before OnBoot)")
	}
}

// Initial returns the phase of new connections. A connection that has entered another one
// can return to it.
func (t *Tracker) Initial() *Phase {
	t.mustBeMade()
	return t.phase
}

// Policy returns the policy of new connections.
func (t *Tracker) Policy() Policy {
	t.mustBeMade()
	return t.phase.Policy()
}

// RecentEnds returns the last ends, the newest first, at most 1,024. The tracker begins to record
// them at the first call, or from the beginning if [Options].OnEnds is set.
func (t *Tracker) RecentEnds() []End {
	t.mustBeMade()
	t.recording.Store(true)
	return t.ends.Recent()
}

// Stats returns the current counts.
func (t *Tracker) Stats() Stats {
	t.mustBeMade()
	t.mu.Lock()
	defer t.mu.Unlock()
	ended := map[string]map[Reason]uint64{} // read before the shards, so that none of these is still live there
	for name, counts := range t.byPhase.all() {
		ended[name] = counts.load()
	}
	st := t.past
	st.Refused = t.room.refused.Load()
	st.Panics = t.calls.Panics()
	st.EndsLost = t.ends.Lost()
	for _, s := range slices.Concat(t.own, t.loops) {
		s.note(func(counts *Stats) {
			st.Add(*counts)
			st.Live += uint64(len(s.conns.all))
		})
		st.BacklogAge = max(st.BacklogAge, s.lateBy())
	}
	st.TimedOut, st.Causes, st.ByPhase = map[Reason]uint64{}, map[string]uint64{}, map[string]map[Reason]uint64{}
	for cause, n := range t.causes.all() {
		st.Causes[cause] = n.Load()
	}
	for name, counts := range ended {
		st.addEnds(name, counts)
	}
	return st
}
