package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/idle"
)

// A run is what a test of mock connections and one of sockets have in common.
type run struct {
	cfg     *config
	peers   []peer // by id
	oracle  *oracle
	rep     *report
	start   time.Time
	touches *atomic.Int64
}

// newRun gives n peers their lives, and others, if more are to come, an id only.
func newRun(cfg config, n, more int) run {
	r := run{cfg: &cfg, peers: make([]peer, n+more), oracle: newOracle(cfg.limits), rep: newReport(cfg, n), touches: new(atomic.Int64)}
	plan := newPlanner(cfg)
	for i := range r.peers {
		p := &r.peers[i]
		if p.id = uint32(i); i >= n {
			continue
		}
		p.life = plan.next()
		r.rep.Plan[p.kind.String()]++
		if p.doomed() {
			r.rep.doomed++
		}
	}
	return r
}

// now is the time since the start in ns, of the monotonic clock.
func (r *run) now() int64 { return int64(time.Since(r.start)) }

// inParallel has n goroutines sweep, each over a share of so many connections, until
// the function that it returns is called, or ctx is done.
func inParallel(ctx context.Context, n, conns int, sweep func(ctx context.Context, from, to int)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { sweep(ctx, conns*i/n, conns*(i+1)/n) })
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// sweep comes past all peers from one to another again and again until ctx is done,
// evenly over the period, and has do play step of them at a time.
func (r *run) sweep(ctx context.Context, from, to, step int, do func(from, to int)) {
	period := r.cfg.sweepTime()
	for next := time.Now(); program.Sleep(ctx, time.Until(next)); {
		for i := from; i < to; i += step {
			share := float64(i-from) / float64(to-from)
			ahead := time.Until(next.Add(time.Duration(share * float64(period))))
			if ahead > time.Millisecond && !program.Sleep(ctx, ahead) || ctx.Err() != nil {
				return
			}
			do(i, min(i+step, to))
		}
		if next = next.Add(period); time.Now().After(next) { // what takes longer than it should is not made up for
			next = time.Now()
		}
	}
}

// What a machine that cannot keep up is given, after the last deadline.
const (
	patience    = 2 * time.Second // since the tracker last closed one
	allPatience = 2 * time.Minute // in all
	pollTime    = 20 * time.Millisecond
)

// awaitEnd returns when the run is over: its duration has passed, and all of
// the doomed are closed, or nothing seems to close them any more.
func (r *run) awaitEnd(ctx context.Context) {
	if !program.Sleep(ctx, r.cfg.duration-time.Since(r.start)) {
		return
	}
	over := time.Now()
	closed, since := r.oracle.doomed.Load(), over
	for closed < r.rep.doomed && time.Since(since) < r.oracle.patience() && time.Since(over) < allPatience {
		if !program.Sleep(ctx, pollTime) {
			return
		}
		if n := r.oracle.doomed.Load(); n != closed {
			closed, since = n, time.Now()
		}
	}
}

// patience is how long nothing need be closed though something is due. A
// tracker that is so far behind already is as far behind with every ping and
// with every answer.
func (o *oracle) patience() time.Duration { return patience + o.allowance + 2*o.late.Most() }

// line tells how the run goes.
func (r *run) line() string {
	closed, wrong := r.oracle.closed()
	elapsed := time.Since(r.start)
	return fmt.Sprintf("%.0f/%.0f s  %s closed, %s wrong  %s touches/s  late %v", elapsed.Seconds(), r.cfg.duration.Seconds(), table.Group(closed),
		table.Group(wrong), table.Group(int64(float64(r.touches.Load())/elapsed.Seconds())), r.oracle.late.Most().Round(time.Millisecond))
}

// finish completes the report of a run that ended at the given time, with what the
// tracker says.
func (r *run) finish(ctx context.Context, end int64, j judgement, a account) {
	rep := r.rep
	rep.judgement = j
	rep.Late = r.oracle.late.Summary()
	rep.Duration = table.Round(time.Duration(end).Seconds(), 3)
	rep.Touches = r.touches.Load()
	rep.Interrupted = ctx.Err() != nil

	st := a.Stats
	rep.Deferred, rep.Passes, rep.Looks, rep.Relinks = st.Deferred, st.Passes, st.Checks, st.EarlyReschedules
	rep.Pings, rep.Misses, rep.Kept, rep.Gone = st.Pings, st.Misses, st.Extended, st.Closed
	rep.TrackerCPU = table.Round(100*float64(st.PassTotal)/float64(end), 3)
	rep.Pause = a.Pause
	rep.Drained, rep.Shed, rep.Evicted, rep.Refused = st.Drained, st.Shed, st.Evicted, st.Refused
	rep.Unaccounted = apart(ended(st), rep.Closed) + apart(st.Closed, rep.Left+a.HandedBack) + apart(st.Live, 0) + apart(st.Tracked-st.Closed, int(ended(st)))
}

func apart(a uint64, b int) int {
	d := int(a) - b
	return max(d, -d)
}

// ended returns how many connections the tracker has ended.
func ended(st idle.Stats) uint64 {
	sum := st.Drained + st.Shed + st.Evicted
	for _, n := range st.TimedOut {
		sum += n
	}
	return sum
}

// An account is what the tracker did: it is stopped, and has handed back so many
// live connections.
type account struct {
	Stats      idle.Stats     `json:"stats"`
	HandedBack int            `json:"handed_back"`
	Pause      spread.Summary `json:"pause"` // of passes
}
