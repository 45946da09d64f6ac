package main

import (
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
)

// A soak is one run.
type soak struct {
	cfg     config
	targets []*target
	tally   *tally
	stalls  stalls
	stderr  io.Writer
}

// veterans is which share of the clients lives as long as the soak: one in so
// many.
const veterans = 4

// warmTime is for how long the warm-up has all the clients.
const warmTime = 4 * limit

// runSoak runs the soak that cfg asks for. If ctx ends it is over early.
func runSoak(ctx context.Context, cfg config, stderr io.Writer) (_ *report, err error) {
	if err := usage.Enough("conns", cfg.conns, 2, 256); err != nil {
		return nil, err
	}
	empty := measure(nil)
	targets, err := startTargets(cfg.servers)
	stop := sync.OnceValue(func() error { return stopTargets(targets) })
	defer stop()
	if err != nil {
		return nil, err
	}
	s := &soak{cfg: cfg, targets: targets, tally: newTally(targets), stalls: newStalls(), stderr: stderr}
	rep := newReport(cfg)
	rep.Empty = empty
	watching, unwatch := context.WithCancel(context.Background())
	defer unwatch()
	go s.stalls.watch(watching)
	s.warmUp()
	rep.Start = s.calm()
	begin, warm := time.Now(), s.dialed()
	s.tally.start(cfg.duration)
	s.load(ctx, rep)
	rep.Seconds = table.Round(time.Since(begin).Seconds(), 1)
	rep.Interrupted = ctx.Err() != nil
	rep.Served = s.dialed() - warm
	rep.End = s.drained(rep.Start)
	s.reconcile(rep)
	if err := stop(); err != nil {
		s.tally.violation("stopping: %v", err)
	}
	s.targets = nil
	empty.HeapMB = rep.End.HeapMB // the soak's own figures are live still
	rep.Stopped = s.drained(empty)
	rep.judge(s.tally)
	return rep, nil
}

// warmUp has each life lived, and as many clients at a time as there will be, so
// that what is made once, or kept for the next, is there.
func (s *soak) warmUp() {
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), warmTime)
	defer cancel()
	for i, t := range s.targets {
		for j, l := range t.lives {
			rng := rand.New(rand.NewPCG(s.cfg.seed, uint64(i<<16|j<<8)))
			all.Go(func() { s.live(ctx, t, l, rng) })
		}
	}
	for i := range s.cfg.conns {
		all.Go(func() {
			// They do not all leave at once either.
			ctx, cancel := context.WithTimeout(ctx, warmTime-time.Duration(i)*limit/time.Duration(s.cfg.conns))
			defer cancel()
			s.slot(ctx, i)
		})
	}
	all.Wait()
}

// dialed is how many connections have been made.
func (s *soak) dialed() (n int) {
	for _, t := range s.targets {
		n += int(t.dials.Load())
	}
	return n
}

// calm measures once no connection is left, and the number of goroutines has
// not changed for a while.
func (s *soak) calm() level {
	return settle(s.targets, s.cfg.slack+5*limit, func(_ level, calm bool) bool { return calm })
}

// drained is calm for when it is known how much is to be left.
func (s *soak) drained(before level) level {
	return settle(s.targets, s.cfg.slack+limit+5*time.Second, func(l level, calm bool) bool {
		calm = calm || l.Goroutines <= before.Goroutines && l.Descriptors <= before.Descriptors
		return calm && len(leaks(before, l, s.cfg.conns, 0)) == 0
	})
}

// load keeps as many clients alive as asked for as long as asked.
func (s *soak) load(ctx context.Context, rep *report) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.duration)
	defer cancel()
	var all sync.WaitGroup
	for i := range s.cfg.conns {
		all.Go(func() { s.slot(ctx, i) })
	}
	s.stalls.total()
	s.watch(ctx, rep)
	all.Wait()
}

// slot lives one life after the other.
func (s *soak) slot(ctx context.Context, i int) {
	t := s.targets[i%len(s.targets)]
	rng := rand.New(rand.NewPCG(s.cfg.seed, uint64(i)))
	if !program.Sleep(ctx, time.Duration(rng.Int64N(int64(limit)))) { // so that they do not all come at once
		return
	}
	if i/len(s.targets)%veterans == 0 {
		s.live(ctx, t, t.lives[0], rng)
		// Only if it was cut, or the machine so slow that it was late.
	}
	for ctx.Err() == nil {
		short, cancel := context.WithTimeout(ctx, 2*limit+time.Duration(rng.Int64N(int64(6*limit))))
		s.live(short, t, choose(t.lives, rng), rng)
		cancel()
	}
}

// live lives a life.
func (s *soak) live(ctx context.Context, t *target, l life, rng *rand.Rand) {
	c, err := t.dial(terms{s.cfg.slack, &s.stalls}, rng)
	if err != nil {
		s.tally.violation("%s: cannot connect: %v", t.name, err)
		program.Sleep(ctx, limit)
		return
	}
	defer c.hangUp()
	if c.since.to.Sub(c.since.from) >= limit { // the server may have told of a timeout before the ledger knew the client
		s.tally.add(t.name, l.name, tooLate())
		return
	}
	o := l.live(ctx, c)
	now := time.Now()
	if o.at.IsZero() {
		o.at = now
	}
	s.tally.add(t.name, l.name, o.excused(s.stalls.within(o.at.Add(-stallWindow), now), limit))
}

// watch measures at the end of each window.
func (s *soak) watch(ctx context.Context, rep *report) {
	p := progress.New(s.stderr, s.cfg.progress)
	defer p.Clear()
	for i := range numWindows {
		if !program.Sleep(ctx, time.Until(s.tally.begin.Add(time.Duration(i+1)*s.tally.window-s.tally.window/10))) {
			return
		}
		w := window{End: table.Round(time.Since(s.tally.begin).Seconds(), 1), level: measure(s.targets)}
		longest, sum := s.stalls.total()
		w.Stall, rep.StalledMS = table.Millis(longest), table.Millis(sum)
		rep.Windows = append(rep.Windows, w)
		lives, violated := s.tally.count()
		p.Say("soak: %.0f s of %v, %s lives, %d violations", time.Since(s.tally.begin).Seconds(), s.cfg.duration, table.Group(lives), violated)
	}
}

// reconcile asks the servers for their counts.
func (s *soak) reconcile(rep *report) {
	for _, t := range s.targets {
		st := t.Stats()
		a := s.tally.servers[t.name]
		for _, fault := range a.reconcile(t.dials.Load(), st) {
			s.tally.violation("%s: %s", t.name, fault)
		}
		rep.Servers = append(rep.Servers, newServerReport(t, a, st))
	}
}
