package idle

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// The errors that misuse gives.
var (
	ErrClosed      = errors.New("idle: the tracker is closed; make a new one with New")
	ErrShardClosed = errors.New("idle: the shard is closed, as its event loop has ended; make a new one with NewShard")
	ErrTracked     = errors.New("idle: the connection is tracked already; track it once, and close it before tracking it again")
	ErrInCallback  = errors.New("idle: Close called from inside a callback, which it would wait for; call it from another goroutine")
)

// Options are what few users need to set. A nil *Options, and every zero
// field, stands for the defaults.
type Options struct {
	// Tick is the grain of all timeouts, 10 ms by default and 1 ms to 10 s.
	// It bounds how late timeouts come: see [Policy]. The process wakes up once a
	// tick while connections are active, and not at all while none is.
	Tick time.Duration

	// Shards is in how many sets, each with a lock, the connections are kept;
	// by default GOMAXPROCS.
	Shards int

	// Budget is how long the driver, or the loop of a shard, may work on
	// timeouts within a tick: half a tick by default. What remains is deferred
	// to the next tick, first come first served, and counted in
	// Stats.Deferred if it becomes late. A loop goes on sooner, when it has had as
	// much time for its other work.
	Budget time.Duration

	// Linger is how long after Expire a [Reaper] reaps, and for how long
	// [Tracker.Close] waits for callbacks; 1 s by default.
	Linger time.Duration

	// Logger gets the panics of callbacks; slog.Default() by default.
	Logger *slog.Logger

	// OnPass, if not nil, is told how long each pass over a shard took that
	// had something due. It is called by the driver, or on the shard's loop.
	OnPass func(took time.Duration)
}

const (
	defaultTick   = 10 * time.Millisecond
	minTick       = time.Millisecond
	maxTick       = 10 * time.Second // as maxTicks of them, a few times over, fit a Duration
	defaultLinger = time.Second
	maxShards     = 1 << 12
)

// complete returns o with the defaults filled in, or what is wrong with it.
func (o *Options) complete() (Options, error) {
	var full Options
	if o != nil {
		full = *o
	}
	if full.Tick == 0 {
		full.Tick = defaultTick
	}
	if full.Tick < minTick || full.Tick > maxTick {
		return full, fmt.Errorf("idle: Options.Tick is %v; it must be %v to %v, or 0 for %v", full.Tick, minTick, maxTick, defaultTick)
	}
	if full.Shards < 0 || full.Shards > maxShards {
		return full, fmt.Errorf("idle: Options.Shards is %d; it must be 1 to %d, or 0 for GOMAXPROCS", full.Shards, maxShards)
	}
	if full.Shards == 0 {
		full.Shards = runtime.GOMAXPROCS(0)
	}
	if full.Budget < 0 || full.Budget > full.Tick {
		return full, fmt.Errorf("idle: Options.Budget is %v; it must be at most the tick of %v, or 0 for half of it", full.Budget, full.Tick)
	}
	if full.Budget == 0 {
		full.Budget = full.Tick / 2
	}
	if full.Linger < 0 || full.Linger > maxTicks*full.Tick {
		return full, fmt.Errorf("idle: Options.Linger is %v; it must be at most %v, or 0 for %v", full.Linger, maxTicks*full.Tick, defaultLinger)
	}
	if full.Linger == 0 {
		full.Linger = defaultLinger
	}
	if full.Logger == nil {
		full.Logger = slog.Default()
	}
	return full, nil
}

// Tracker tracks connections and times them out. All its methods may be called
// by any goroutine. It has one goroutine, the driver, which sleeps while there
// is nothing to do, and which [Tracker.Close] ends.
type Tracker struct {
	opts   Options
	linger int64 // Options.Linger in ticks
	clock  *clock
	phase  *Phase // that connections begin with

	retiring atomic.Bool // see Retire

	shards []*Shard // the driver's own
	turn   atomic.Uint32

	mu     sync.Mutex
	loops  []*Shard // those on event loops
	closed bool
	past   Stats // of shards that were closed

	backlog       chan struct{} // tells the driver that a loop has work left
	stop, stopped chan struct{}
	callbacks     running
	reapers       pool
	panics        atomic.Uint64
}

// New returns a tracker whose connections begin under the policy p. It fails
// if p sets no limit at all, or if a value in p or opts makes no sense, with an
// error that names it. The tracker must be closed after use.
func New(p Policy, opts *Options) (*Tracker, error) {
	full, err := opts.complete()
	if err != nil {
		return nil, err
	}
	t := &Tracker{
		opts:    full,
		linger:  int64((full.Linger+full.Tick-1)/full.Tick) + 1,
		clock:   newClock(full.Tick),
		past:    Stats{TimedOut: map[Reason]uint64{}},
		backlog: make(chan struct{}, 1),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	t.reapers.running = &t.callbacks
	if t.phase, err = t.Phase(p); err != nil {
		return nil, err
	}
	if p == (Policy{Name: p.Name}) {
		return nil, errors.New("idle: the policy sets no limit; set at least one of IdleTimeout, ReadTimeout, ReadTotal, WriteTimeout, PhaseTimeout, MaxAge, Heartbeat, MinReadRate and MinWriteRate")
	}
	for range full.Shards {
		t.shards = append(t.shards, newShard(t, &sync.Mutex{}, nil))
	}
	go t.drive()
	return t, nil
}

// Phase makes p ready for [Conn.Enter]. A Policy that sets no limit is allowed:
// it makes a phase in which a connection is exempt.
func (t *Tracker) Phase(p Policy) (*Phase, error) {
	t.mustBeMade()
	if err := p.validate(t.opts.Tick); err != nil {
		return nil, err
	}
	return newPhase(t, p, t.opts.Tick), nil
}

// mustBeMade panics if t was not made by New.
func (t *Tracker) mustBeMade() {
	if t == nil || t.clock == nil {
		panic("idle: a nil or zero Tracker; make one with New, and see whether it returned an error")
	}
}

// Policy returns the policy under which connections begin.
func (t *Tracker) Policy() Policy {
	t.mustBeMade()
	return t.phase.policy
}

// Track begins to track c; see [Shard.Track]. It chooses the shard, and may be
// called by any goroutine.
func (t *Tracker) Track(c *Conn, o Owner) error {
	t.mustBeMade()
	return t.shards[t.turn.Add(1)%uint32(len(t.shards))].Track(c, o)
}

// NewShard makes a shard for an event loop, on which nothing is locked: all its
// methods, and those of its connections, must be called on the loop.
//
// When something is due, the tracker's driver calls execute, which must have
// the loop call pass soon, once, and must not call it itself; there is at most
// one pass on its way. If execute fails it is tried again at the next tick.
// Callbacks of owners run on the loop, inside the pass.
func (t *Tracker) NewShard(execute func(pass func()) error) (*Shard, error) {
	t.mustBeMade()
	if execute == nil {
		panic("idle: NewShard(nil); pass the function that has the loop call a pass")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	s := newShard(t, noLock{}, execute)
	t.loops = append(t.loops, s)
	return s, nil
}

// Stats returns the present counts.
func (t *Tracker) Stats() Stats {
	t.mustBeMade()
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.past
	st.TimedOut = maps.Clone(st.TimedOut)
	st.Panics = t.panics.Load()
	for _, s := range t.shards {
		s.counts.addTo(&st)
	}
	for _, s := range t.loops {
		s.counts.addTo(&st)
	}
	return st
}
