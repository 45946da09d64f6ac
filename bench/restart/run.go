package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// loadAverage returns how many threads have run or waited for a processor in the last minute.
func loadAverage() (load float64) {
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Sscan(string(text), &load)
	}
	return load
}

// run starts a server, a balancer and the clients, and replaces the server.
func run(ctx context.Context, c config, stderr io.Writer) (*report, error) {
	certificate, err := server.Certificate()
	if err != nil {
		return nil, err
	}
	b, err := newBalancer()
	if err != nil {
		return nil, err
	}
	defer b.close()
	current, err := startBackend(c, certificate)
	if err != nil {
		return nil, err
	}
	defer func() { current.kill() }()
	b.add(current)
	if !b.awaitReady(ctx, current) {
		return nil, fmt.Errorf("the first server isn't ready: %w", ctx.Err())
	}

	begun := time.Now()
	load := newLoad(c, b)
	quit, stop := context.WithCancel(ctx)
	defer stop()
	var clients sync.WaitGroup
	load.start(quit, &clients)
	r := &report{Machine: machine.Take(ctx), Load: loadAverage(), Restarts: c.restarts, Own: c.own}
	p := progress.New(stderr, c.progress)
	defer p.Clear()
	for i := range c.restarts {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		p.Say("restart %d of %d, %s requests, %s failed", i+1, c.restarts, table.Group(load.requests()), table.Group(load.failed()))
		next, err := startBackend(c, certificate)
		if err != nil {
			return nil, err
		}
		b.add(next)
		if !b.awaitReady(ctx, next) {
			return nil, ctx.Err()
		}
		began := time.Now()
		if err := current.leave(ctx, c); err != nil {
			r.Faults = append(r.Faults, fmt.Sprintf("restart %d: %v", i+1, err))
		}
		r.Longest = max(r.Longest, table.Round(time.Since(began).Seconds(), 2))
		b.remove(current)
		current.kill()
		current = next
	}
	stop()
	clients.Wait()
	r.Seconds = table.Round(time.Since(begun).Seconds(), 1)
	r.Kinds = load.outcomes()
	return r, nil
}
