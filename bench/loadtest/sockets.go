package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
)

// A socketLoad is a run of real connections.
type socketLoad struct {
	run
	socks     []sock
	connected atomic.Int64
	readers   sync.WaitGroup
}

const (
	ownFiles     = 64 // descriptors that a process needs besides its connections
	dialers      = 8
	sweepers     = 4
	shutdownTime = 30 * time.Second
)

// runSockets runs the test over real connections, with the server in another
// process, as it would be.
func runSockets(ctx context.Context, cfg config, stderr io.Writer) (*report, error) {
	if err := usage.Enough("sockets", cfg.sockets, 1, ownFiles); err != nil {
		return nil, err
	}
	l := &socketLoad{run: newRun(cfg, cfg.sockets, 0), socks: make([]sock, cfg.sockets)}
	for i := range l.socks {
		l.socks[i].peer, l.socks[i].load = &l.peers[i], l
	}
	var err error
	if l.rep.Figures, _, err = measure(cfg.sockets, cfg.options(nil)); err != nil {
		return nil, err
	}

	server, err := child.Start("server", cfg.limits, child.Options{Stderr: stderr})
	if err != nil {
		return nil, err
	}
	defer server.Kill()
	var first news
	if err := server.Hear(&first); err != nil || first.Address == "" {
		return nil, fmt.Errorf("the server process did not say where it listens (%v)", err)
	}
	l.start = time.Now()
	account := make(chan *account, 1)
	go func() { account <- l.hear(server) }()
	stopSweeping := inParallel(ctx, sweepers, len(l.socks), func(ctx context.Context, from, to int) {
		l.sweep(ctx, from, to, 1, func(i, _ int) {
			if s := &l.socks[i]; s.up.Load() && !s.peer.ended() {
				s.act()
			}
		})
	})
	defer stopSweeping()
	stopBar := progress.New(stderr, cfg.progress).Show(l.line)
	err = l.dialAll(ctx, first.Address)
	l.rep.Setup = table.Round(time.Since(l.start).Seconds(), 3)
	if err == nil {
		l.awaitEnd(ctx)
	}
	stopSweeping()
	stopBar()
	if err != nil { // or an interruption: the server may count connections that were given up half made
		return nil, err
	}

	end := l.now()
	server.Close()
	select {
	case done := <-account:
		if done == nil {
			return nil, errors.New("the server process ended before its time")
		}
		l.hangUp()
		l.finish(ctx, end, l.oracle.judge(end, l.peers), *done)
	case <-time.After(shutdownTime):
		return nil, fmt.Errorf("the server process has not ended %v after it was told to", shutdownTime)
	}
	for i := range l.socks {
		if l.socks[i].unexplained(end) {
			l.rep.Unaccounted++
		}
	}
	return l.rep, nil
}

// hear takes the server's news until there are no more, and returns the last.
func (l *socketLoad) hear(server *child.Child) (done *account) {
	for {
		var n news
		if server.Hear(&n) != nil {
			return done
		}
		if n.Closed != nil && int(n.Closed.ID) < len(l.socks) {
			l.socks[n.Closed.ID].closed(n.Closed.Reason)
		}
		if n.Done != nil {
			done = n.Done
		}
	}
}

// dialAll begins all connections.
func (l *socketLoad) dialAll(ctx context.Context, address string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for first := range dialers {
		wg.Go(func() {
			for i := first; i < len(l.socks) && ctx.Err() == nil; i += dialers {
				s := &l.socks[i]
				if err := s.dial(ctx, address); err != nil {
					cancel(fmt.Errorf("socket %d of %d: %w", i, len(l.socks), err))
					return
				}
				l.connected.Add(1)
				l.readers.Go(s.read)
			}
		})
	}
	wg.Wait()
	if l.allConnected() {
		return nil
	}
	return context.Cause(ctx)
}

func (l *socketLoad) allConnected() bool { return int(l.connected.Load()) == len(l.socks) }

// line tells how the run goes, or how far the set-up has come.
func (l *socketLoad) line() string {
	if !l.allConnected() {
		return fmt.Sprintf("%s of %s connected", table.Group(l.connected.Load()), table.Group(len(l.socks)))
	}
	return l.run.line()
}

// hangUp closes the connections that are left.
func (l *socketLoad) hangUp() {
	for i := range l.socks {
		if s := &l.socks[i]; s.up.Load() {
			s.nc.Close()
		}
	}
	l.readers.Wait()
}
