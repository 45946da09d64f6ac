package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// A soak is one run.
type soak struct {
	cfg     config
	servers []*server
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
	if need := uint64(2*cfg.conns + 256); need > descriptorLimit() {
		return nil, fmt.Errorf("-conns %d needs %d descriptors, but the limit is %d; raise it (ulimit -n %d), or use -conns %d",
			cfg.conns, need, descriptorLimit(), need, (descriptorLimit()-256)/2)
	}
	empty := measure(nil)
	servers, err := startServers(cfg.servers)
	stop := sync.OnceValue(func() error { return stopServers(servers) })
	defer stop()
	if err != nil {
		return nil, err
	}
	s := &soak{cfg: cfg, servers: servers, tally: newTally(servers), stalls: newStalls(), stderr: stderr}
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
	rep.Seconds = round(time.Since(begin).Seconds(), 1)
	rep.Interrupted = ctx.Err() != nil
	rep.Served = s.dialed() - warm
	rep.End = s.drained(rep.Start)
	s.reconcile(rep)
	if err := stop(); err != nil {
		s.tally.violation("stopping the servers: %v", err)
	}
	s.servers = nil
	empty.HeapMB = rep.End.HeapMB // the soak's own figures are live still
	rep.Stopped = s.drained(empty)
	rep.judge(s.tally)
	return rep, nil
}

func stopServers(servers []*server) error {
	var all error
	for _, s := range servers {
		if err := s.stop(); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return all
}

// warmUp has each life lived, and as many clients at a time as there will be, so
// that what is made once, or kept for the next, is there.
func (s *soak) warmUp() {
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), warmTime)
	defer cancel()
	for i, srv := range s.servers {
		for j, l := range srv.lives {
			rng := rand.New(rand.NewPCG(s.cfg.seed, uint64(i<<16|j<<8)))
			all.Go(func() { s.live(ctx, srv, l, rng) })
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
	for _, srv := range s.servers {
		n += int(srv.dials.Load())
	}
	return n
}

// calm measures once no connection is left, and the number of goroutines has
// not changed for a while: servers keep some for the next connection.
func (s *soak) calm() level {
	var c calmness
	return settle(s.servers, s.cfg.slack+5*limit, c.reached)
}

// drained is calm for when it is known how much is to be left.
func (s *soak) drained(before level) level {
	var c calmness
	return settle(s.servers, s.cfg.slack+limit+5*time.Second, func(l level) bool {
		calm := c.reached(l) || l.Goroutines <= before.Goroutines && l.Descriptors <= before.Descriptors
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
	srv := s.servers[i%len(s.servers)]
	rng := rand.New(rand.NewPCG(s.cfg.seed, uint64(i)))
	if !pause(ctx, time.Duration(rng.Int64N(int64(limit)))) { // so that they do not all come at once
		return
	}
	if i/len(s.servers)%veterans == 0 {
		s.live(ctx, srv, srv.steady, rng)
		// Only if it was cut, or the machine so slow that it was late.
	}
	for ctx.Err() == nil {
		short, cancel := context.WithTimeout(ctx, 2*limit+time.Duration(rng.Int64N(int64(6*limit))))
		s.live(short, srv, choose(srv.lives, rng), rng)
		cancel()
	}
}

// live lives a life.
func (s *soak) live(ctx context.Context, srv *server, l life, rng *rand.Rand) {
	c, err := srv.dial(terms{s.cfg.slack, &s.stalls}, rng)
	if err != nil {
		s.tally.violation("%s: cannot connect: %v", srv.name, err)
		pause(ctx, limit)
		return
	}
	defer c.hangUp()
	s.tally.add(srv.name, l.name, l.live(ctx, c))
}

// watch measures at the end of each window.
func (s *soak) watch(ctx context.Context, rep *report) {
	for i := range numWindows {
		if !pause(ctx, time.Until(s.tally.begin.Add(time.Duration(i+1)*s.tally.window-s.tally.window/10))) {
			return
		}
		w := window{End: round(time.Since(s.tally.begin).Seconds(), 1), level: measure(s.servers)}
		longest, sum := s.stalls.total()
		w.Stall, rep.StalledMS = millis(longest), millis(sum)
		rep.Windows = append(rep.Windows, w)
		if s.cfg.progress {
			lives, violated := s.tally.count()
			fmt.Fprintf(s.stderr, "soak: %.0f s of %v, %s lives, %d violations\n", time.Since(s.tally.begin).Seconds(), s.cfg.duration, group(lives), violated)
		}
	}
}

// reconcile asks the servers for their counts.
func (s *soak) reconcile(rep *report) {
	for _, srv := range s.servers {
		st := srv.stats()
		a := s.tally.servers[srv.name]
		for _, fault := range a.reconcile(srv.dials.Load(), st) {
			s.tally.violation("%s: %s", srv.name, fault)
		}
		rep.Servers = append(rep.Servers, newServerReport(srv, a, st))
	}
}
