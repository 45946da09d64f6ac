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
// A tracker has a goroutine, the driver, which sleeps while there is nothing to do, and starts
// others while there is a backlog. [Tracker.Close] and [Tracker.CloseWhenEmpty] end it.
type Tracker struct {
	clock  *clock.Clock
	phase  *Phase // the phase of new connections
	opts   Options
	linger int64 // Options.ReapDelay in ticks
	calls  callbacks.Runner
	anchor *anchor

	own  []*Shard      // shards that the driver passes over
	turn atomic.Uint32 // Track uses it to take them in turn

	// The driver's.
	due           []*Shard      // those of own that are due
	behind        atomic.Bool   // the last passes over own have deferred something
	stop, stopped chan struct{} // closed when it has to end, and when it has ended

	pingless atomic.Bool // a connection has Hooks without Ping
	retiring atomic.Bool // CloseWhenEmpty was called

	ends    ends
	byPhase byName[reasonCount]
	causes  byName[atomic.Uint64] // of connections that were shed
	keys    atomic.Pointer[keys]  // nil without Capacity.PerKey
	room    room
	refused refusals

	mu         sync.Mutex // guards what follows
	loops      []*Shard   // shards of event loops
	closed     bool
	operations []*Operation // those that have not finished
	past       Stats        // counts of shards that were closed
}

// init prepares t for shards.
func (t *Tracker) init(opts Options) {
	t.opts = opts
	t.anchor = &anchor{}
	t.linger = int64((opts.ReapDelay+opts.Tick-1)/opts.Tick) + 1
	t.clock = clock.New(opts.Tick)
	t.stop, t.stopped = make(chan struct{}), make(chan struct{})
	t.calls.Logger = opts.Logger
	t.room.tracker = t
	t.ends.init(t)
}

// mustBeMade panics if t was not made by New.
func (t *Tracker) mustBeMade() {
	if t == nil || t.clock == nil {
		panic("idle: a nil or zero Tracker; make one with New, and check its error")
	}
}

// Setting returns the name of the setting by which connections of a phase are ended for r: what
// [Options].Setting returns, or the field of [Policy]. It returns "" for an operation.
func (t *Tracker) Setting(phase string, r Reason) string {
	t.mustBeMade()
	if r == 0 || r >= numLimits {
		return ""
	}
	name := ""
	if t.opts.Setting != nil {
		t.calls.Guard("Setting", func() { name = t.opts.Setting(phase, r) })
	}
	return cmp.Or(name, limits[r].setting)
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

// Track starts tracking c on one of the tracker's own shards; see [Shard.Track].
func (t *Tracker) Track(c *Conn, owner any, h *Hooks) error {
	t.mustBeMade()
	return t.own[t.turn.Add(1)%uint32(len(t.own))].Track(c, owner, h)
}

// Adopt is [Tracker.Track] for a connection that was accepted long ago, and comes from another
// tracker or was not tracked for a while. Stats.Adopted counts it, not Tracked. The [Capacity]
// counts it but doesn't refuse it, so there may be more connections than that allows.
func (t *Tracker) Adopt(c *Conn, owner any, h *Hooks) error {
	t.mustBeMade()
	return t.own[t.turn.Add(1)%uint32(len(t.own))].track(c, owner, h, true)
}

// NewShard makes a shard for an event loop. It has no locks. Its methods and those of its
// connections must be called on the loop, and its [Hooks] are called there.
//
// When something is due, the driver calls execute, which must make the loop call pass once, soon,
// and must not call pass itself. At most one pass is pending at a time. If execute fails, it is
// called again at the next tick. A pass takes no longer than Options.Budget; callbacks that take
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
	t.loops = append(t.loops, s)
	return s, nil
}

// Operations returns the operations that are under way, the oldest first.
func (t *Tracker) Operations() []*Operation {
	t.mustBeMade()
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.operations)
}

// operate starts an operation, and lists it until it has finished.
func (t *Tracker) operate(p plan) (*Operation, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, ErrClosed
	case p.lasts && slices.ContainsFunc(t.operations, func(o *Operation) bool { return o.plan.lasts }):
		return nil, ErrDraining
	}
	o := t.begin(p)
	t.operations = append(t.operations, o)
	return o, nil
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
	st := t.past
	st.Refused, st.RefusedKey, st.RefusedRate = t.refused.all.Load(), t.refused.key.Load(), t.refused.rate.Load()
	st.RefusedHandshake = t.refused.handshake.Load()
	st.Panics = t.calls.Panics()
	st.EndsLost = t.ends.Lost()
	for _, s := range slices.Concat(t.own, t.loops) {
		s.counts.addTo(&st)
		st.BacklogAge = max(st.BacklogAge, s.lateBy())
	}
	st.TimedOut, st.Causes, st.ByPhase = map[Reason]uint64{}, map[string]uint64{}, map[string]map[Reason]uint64{}
	for cause, n := range t.causes.all() {
		st.Causes[cause] = n.Load()
	}
	for name, counts := range t.byPhase.all() {
		st.addEnds(name, counts)
	}
	return st
}
