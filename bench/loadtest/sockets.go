package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A socketLoad is a run of real connections.
type socketLoad struct {
	cfg     config
	oracle  *oracle
	start   time.Time
	socks   []sock
	touches atomic.Int64
	readers sync.WaitGroup
}

const (
	unlimited    = math.MaxUint64
	ownFiles     = 64 // descriptors that a process needs besides its connections
	dialers      = 8
	shutdownTime = 30 * time.Second
)

func (l *socketLoad) now() int64 { return int64(time.Since(l.start)) }

func (l *socketLoad) peers() iter.Seq[*peer] {
	return func(yield func(*peer) bool) {
		for i := range l.socks {
			if !yield(&l.socks[i].peer) {
				return
			}
		}
	}
}

// checkLimit returns an error that says what to do if n sockets are more than
// a process may have.
func checkLimit(n int, limit uint64) error {
	need := uint64(n) + ownFiles
	if need <= limit {
		return nil
	}
	err := fmt.Sprintf("-sockets is %d, which takes %d descriptors in each of two processes, but the limit is %d; raise it with \"ulimit -n %d\" (as root, or after raising the hard limit)", n, need, limit, need)
	if limit > ownFiles {
		err += fmt.Sprintf(", or use -sockets %d", limit-ownFiles)
	}
	return errors.New(err)
}

// runSockets runs the test over real connections, with the server in another
// process, as it would be.
func runSockets(ctx context.Context, cfg config, stderr io.Writer) (*report, error) {
	if err := checkLimit(cfg.sockets, descriptorLimit()); err != nil {
		return nil, err
	}
	l := &socketLoad{cfg: cfg, oracle: newOracle(cfg), socks: make([]sock, cfg.sockets)}
	l.oracle.remote = true
	rep := newReport(cfg)
	for plan, i := newPlanner(cfg), 0; i < len(l.socks); i++ {
		s, life := &l.socks[i], plan.next()
		s.id, s.load = uint32(i), l
		s.be(life)
		rep.planned(life)
	}
	var err error
	if rep.Figures, _, err = measure(cfg.sockets, cfg.options(nil)); err != nil {
		return nil, err
	}

	child, err := startServer(cfg, stderr)
	if err != nil {
		return nil, err
	}
	defer child.kill()
	l.start = time.Now()
	account := make(chan *account, 1)
	go func() { account <- l.hear(child.news) }()
	stopSweeping := l.sweepInBackground(ctx)
	defer stopSweeping()
	stopBar := newProgress(cfg, stderr).show(l.progress)
	err = l.dialAll(ctx, child.address)
	rep.Setup = seconds(time.Since(l.start))
	if err == nil {
		awaitEnd(ctx, cfg, l.start, l.oracle, rep.doomed)
	}
	stopSweeping()
	stopBar()
	if err != nil && ctx.Err() == nil {
		return nil, err
	}

	end := l.now()
	child.stop()
	select {
	case done := <-account:
		if done == nil {
			return nil, errors.New("the server process ended before its time")
		}
		l.hangUp()
		rep.judge(l.oracle.judge(end, l.peers()), l.oracle.late)
		rep.tracker(done.Stats, done.HandedBack, done.Pause, time.Duration(end))
	case <-time.After(shutdownTime):
		return nil, fmt.Errorf("the server process has not ended %v after it was told to", shutdownTime)
	}
	rep.Unaccounted += l.unexplained(end)
	rep.Duration = seconds(time.Duration(end))
	rep.Touches = l.touches.Load()
	rep.Interrupted = ctx.Err() != nil
	return rep, nil
}

// hear takes the server's news until there are no more, and returns the last.
func (l *socketLoad) hear(d *json.Decoder) (done *account) {
	for {
		var n news
		if d.Decode(&n) != nil {
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
	var next atomic.Int64
	var wg sync.WaitGroup
	for range dialers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(l.socks) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				s := &l.socks[i]
				if err := s.dial(ctx, address); err != nil {
					cancel(fmt.Errorf("socket %d of %d: %w", i, len(l.socks), err))
					return
				}
				l.readers.Go(s.read)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

const socketSweepers = 4

// sweepInBackground has the connections do what their lives say until the
// function that it returns is called, or ctx is done.
func (l *socketLoad) sweepInBackground(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for i := range socketSweepers {
		wg.Go(func() { l.sweep(ctx, len(l.socks)*i/socketSweepers, len(l.socks)*(i+1)/socketSweepers) })
	}
	return func() {
		cancel()
		wg.Wait()
	}
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

// unexplained returns how many connections had ended by the given time though
// nobody had ended them.
func (l *socketLoad) unexplained(by int64) (n int) {
	for i := range l.socks {
		if l.socks[i].unexplained(by) {
			n++
		}
	}
	return n
}

func (l *socketLoad) progress() string {
	closed, wrong := l.oracle.closed()
	return standing{
		elapsed: time.Since(l.start), duration: l.cfg.duration,
		closed: closed, wrong: wrong,
		activities: l.touches.Load(), what: "messages",
		latest: l.oracle.late.Most(),
	}.String()
}
