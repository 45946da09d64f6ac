package main

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/idle"
)

// A run is what a test of mock connections and one of sockets have in common.
type run struct {
	cfg     config
	oracle  *oracle
	rep     *report
	start   time.Time
	touches atomic.Int64
}

func (r *run) init(cfg config) {
	r.cfg, r.oracle, r.rep = cfg, newOracle(cfg), newReport(cfg)
}

// plan gives the peers their lives.
func (r *run) plan(peers iter.Seq[*peer]) {
	plan, id := newPlanner(r.cfg), uint32(0)
	for p := range peers {
		life := plan.next()
		p.id = id
		p.be(life)
		r.rep.planned(life)
		id++
	}
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

// What a machine that cannot keep up is given, after the last deadline.
const (
	patience    = 2 * time.Second // since the tracker last closed one
	allPatience = 2 * time.Minute // in all
	pollTime    = 20 * time.Millisecond
)

// awaitEnd returns when the run is over: its duration has passed, and all of
// the doomed are closed, or nothing seems to close them any more.
func (r *run) awaitEnd(ctx context.Context) {
	if !sleep(ctx, r.cfg.duration-time.Since(r.start)) {
		return
	}
	over := time.Now()
	closed, since := r.oracle.doomed.Load(), over
	for closed < r.rep.doomed && time.Since(since) < r.oracle.patience() && time.Since(over) < allPatience {
		if !sleep(ctx, pollTime) {
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

// sleep pauses for d and reports whether it was not interrupted.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// finish completes the report of a run that ended at the given time.
func (r *run) finish(ctx context.Context, end int64, peers iter.Seq[*peer], st idle.Stats, handedBack int, p pause) {
	r.rep.judge(r.oracle.judge(end, peers), r.oracle.late)
	r.rep.tracker(st, handedBack, p, time.Duration(end))
	r.rep.Duration = seconds(time.Duration(end))
	r.rep.Touches = r.touches.Load()
	r.rep.Interrupted = ctx.Err() != nil
}

// line returns how the run goes.
func (r *run) line(what string) progressLine {
	closed, wrong := r.oracle.closed()
	return progressLine{
		elapsed: time.Since(r.start), duration: r.cfg.duration, closed: closed, wrong: wrong,
		activities: r.touches.Load(), what: what, latest: r.oracle.late.Most(),
	}
}

// A progressLine tells how a run goes.
type progressLine struct {
	elapsed, duration time.Duration
	live              string // as it is shown; empty if it is not known
	closed, wrong     int
	activities        int64
	what              string // what an activity is
	latest            time.Duration
}

// String returns a line that fits a terminal, with ten million connections, too.
func (s progressLine) String() string {
	parts := []string{fmt.Sprintf("%.0f/%.0f s", s.elapsed.Seconds(), s.duration.Seconds())}
	if s.live != "" {
		parts = append(parts, s.live+" live")
	}
	closed := table.Group(s.closed) + " closed"
	if s.wrong > 0 {
		closed += ", " + table.Group(s.wrong) + " wrong"
	}
	parts = append(parts, closed, fmt.Sprintf("%s %s/s", short(float64(s.activities)/s.elapsed.Seconds()), s.what))
	return strings.Join(append(parts, "late "+s.latest.Round(time.Millisecond).String()), "  ")
}

// short writes a number with two digits or more, and thousands and millions as k and M.
func short(n float64) string {
	switch {
	case n >= 9.95e6:
		return fmt.Sprintf("%.0fM", n/1e6)
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.0fk", n/1e3)
	}
	return fmt.Sprintf("%.0f", n)
}
