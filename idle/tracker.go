package idle

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/idlewheel/idlewheel/idle/internal/callbacks"
	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// Tracker tracks connections and times them out. [New] makes one. Its methods may be called
// from any goroutine, callbacks included, unless they say otherwise. They panic on a nil or zero
// Tracker.
//
// A tracker has a goroutine while it has connections, and others while there is a backlog.
type Tracker struct {
	clock *clock.Clock
	phase *Phase // the phase of new connections
	opts  Options
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

	ends    ends
	byPhase byName[reasonCount]
	causes  byName[atomic.Uint64] // of connections that were shed
	room    room

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
	t.ends.init(t)
}

// mustBeMade panics if t was not made by New.
func (t *Tracker) mustBeMade() {
	if t == nil || t.clock == nil {
		panic("idle: a nil or zero Tracker; make one with New, and check its error (that of a gnet handler is nil before OnBoot)")
	}
}

// Setting returns the name of the setting by which connections of a phase are ended for r: what
// [Options].Setting returns, or the field of [Policy]. It returns "" for a reason that is no limit.
func (t *Tracker) Setting(phase string, r Reason) string {
	t.mustBeMade()
	if r == 0 || r >= numLimits {
		return ""
	}
	name := ""
	if t.opts.Setting != nil {
		t.calls.Guard("Setting", func() { name = t.opts.Setting(phase, r) })
	}
	return cmp.Or(name, table[r].setting)
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

// Expect says that connections with h will be tracked. It fails if the tracker's policy needs a
// function that h does not have. Later SetPolicy fails for such a policy. Track does the same, so only
// an adapter that tracks nothing for now needs Expect: without it, a policy could be replaced by one
// with which every Track fails.
func (t *Tracker) Expect(h *Hooks) error {
	t.mustBeMade()
	if h.Ping == nil && !t.pingless.Load() {
		t.noPing()
	}
	return h.fit(t.phase.limits())
}

// Track starts tracking c on one of the tracker's own shards; see [Shard.Track].
func (t *Tracker) Track(c *Conn, owner any, h *Hooks) error {
	t.mustBeMade()
	return t.own[t.turn.Add(1)%uint32(len(t.own))].Track(c, owner, h)
}

// NewShard makes a shard for an event loop. Reporting an activity takes no lock. Call its methods, and those of its
// connections, on the loop. Its [Hooks] are called there too.
//
// When something is due, execute is called on a goroutine of its own. It must make the loop call pass
// once, soon, and must not call pass itself. It may block while the loop does, and may be running
// until Close of the tracker has returned. At most one pass is pending at a time. If execute fails, it
// is called again at the next tick. A pass takes no longer than Options.Budget; callbacks that take
// longer are the exception. Options.Shards doesn't include shards of loops.
//
// NewShard fails with [ErrClosed] if the tracker is closed, and panics if execute
// is nil.
func (t *Tracker) NewShard(execute func(pass func()) error) (*Shard, error) {
	t.mustBeMade()
	if execute == nil {
		panic("idle: NewShard(nil); pass a function that makes the loop call a pass")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	s := t.newShard(execute)
	if d := t.draining.Load(); d != nil {
		s.turns = &turns{of: d, given: true}
	}
	t.loops = append(t.loops, s)
	return s, nil
}

// RecentEnds returns the last ends, the newest first, at most 1,024. The tracker begins to record
// them at the first call, or from the beginning if [Options].OnEnds is set.
func (t *Tracker) RecentEnds() []End {
	t.mustBeMade()
	t.ends.on.Store(true)
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
