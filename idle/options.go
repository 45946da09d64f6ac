package idle

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"
)

// Errors returned when the API is misused.
var (
	ErrClosed      = errors.New("idle: the tracker is closed; make a new one with New")
	ErrShardClosed = errors.New("idle: the shard is closed, as its event loop has ended; make a new one with NewShard")
	ErrTracked     = errors.New("idle: the Conn is tracked already, or was; use a new one for each connection, and each time that it is tracked")

	errInPass = errors.New("idle: Shard.Close was called in a callback of the shard; call it on the loop afterwards")
)

// Options configures a tracker. Each field may be zero, which means the default.
// A nil *Options means all defaults.
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
	// that only need rescheduling. After a pass, a loop is left alone for as long as the pass took, a tick at most.
	// Stats.Deferred counts the timeouts that are late, for this or another reason, and
	// Stats.BacklogAge is how long the oldest deferred connection has been waiting.
	Budget time.Duration

	// PhasesOnly is for adapters whose connections enter a phase before they do anything
	// else, so that the tracker's own policy never applies. Replacing that policy is then an
	// error.
	PhasesOnly bool

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

	// Setting, if not nil, returns the user's name of a limit, given the phase and the reason
	// with which it ends connections. It returns "" if that name is the field of [Policy]. It is
	// for adapters that make policies of settings of their own. Errors, ends, metrics and pages
	// have these names. Setting must not block.
	Setting func(phase string, r Reason) string

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

// New returns a tracker that starts connections under the policy p. opts may be
// nil. New fails if p sets no limit, or if a value in p or opts is invalid; the
// error names it. While the tracker has connections it has a goroutine, so call [Tracker.Close] or
// [Tracker.CloseWhenEmpty] after use. A tracker that isn't closed is collected when nobody refers to it, and its
// goroutine ends when the last connection has ended and no later than its limits would have passed.
func New(p Policy, opts *Options) (*Tracker, error) {
	full, err := opts.complete(TickFor(p))
	if err != nil {
		return nil, err
	}
	if !p.SetsLimit() {
		return nil, errNoLimit()
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
