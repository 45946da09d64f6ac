package idle

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"
)

// The errors that misuse gives.
var (
	ErrClosed      = errors.New("idle: the tracker is closed; make a new one with New")
	ErrShardClosed = errors.New("idle: the shard is closed, as its event loop has ended; make a new one with NewShard")
	ErrTracked     = errors.New("idle: the connection is tracked already; track it once, and close it before tracking it again")

	errInPass = errors.New("idle: Close of a shard in one of its callbacks; have the loop call it afterwards")
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

	// Linger is how long after its end a connection is closed if nobody has
	// ([Hooks].Reap), and for how long [Tracker.Close] waits for callbacks; 1 s by
	// default.
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
