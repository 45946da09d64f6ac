package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/idle"
)

// A load is a run of mock connections.
type load struct {
	run

	// The connections' state is apart from what the test knows of them, so
	// that it can be weighed, and lies as densely as in a server that has
	// little else in its connections. Each is owned by its peer.
	conns []idle.Conn

	begun   atomic.Int64   // how many are tracked
	perSlab *spread.Spread // how long a slab of touches took
}

func (l *load) conn(p *peer) *idle.Conn { return &l.conns[p.id] }

// hooks have the oracle judge, and the peer answer pings.
func (l *load) hooks() *idle.Hooks {
	return &idle.Hooks{
		Expire: func(owner any, err *idle.TimeoutError) { l.oracle.expired(owner.(*peer), l.now(), err.Reason) },
		Ping:   func(owner any) error { return l.ping(owner.(*peer)) },
	}
}

// ping has the peer answer at once, unless it is no longer there.
func (l *load) ping(p *peer) error {
	before := l.now()
	if p.quiet(before) || p.ended() {
		return nil
	}
	l.conn(p).Touch()
	l.oracle.touched(p, before, l.now())
	l.touches.Add(1)
	return nil
}

// runMock runs the test over mock connections.
func runMock(ctx context.Context, cfg config, stderr io.Writer) (*report, error) {
	l := &load{run: newRun(cfg, cfg.conns), perSlab: spread.New()}
	bar := progress.New(stderr, cfg.progress)
	bar.Say("measuring the tracker with %s connections and nothing else", table.Group(cfg.conns))
	var err error
	if l.rep.Figures, l.conns, err = measure(cfg.conns, cfg.options(nil)); err != nil {
		return nil, err
	}
	pauses := spread.New()
	tracker, err := idle.New(cfg.policy(), cfg.options(pauses))
	if err != nil {
		return nil, err
	}
	l.start = time.Now()
	stopSampling := inParallel(ctx, 1, 1, func(ctx context.Context, _, _ int) {
		for ok := true; ok; ok = program.Sleep(ctx, max(cfg.duration/100, time.Millisecond)) {
			st := tracker.Stats()
			l.rep.samples = append(l.rep.samples, standing{time.Since(l.start), st.Busy, int(st.Live), int(timedOut(st))})
		}
	})
	stopTouching := inParallel(ctx, runtime.GOMAXPROCS(0), len(l.peers), func(ctx context.Context, from, to int) {
		l.sweep(ctx, from, to, 32*slab, (&sweeper{load: l}).sweep)
	})
	stopBar := bar.Show(func() string { return l.line() + fmt.Sprintf("  %s live", table.Group(tracker.Stats().Live)) })
	trackErr := l.track(ctx, tracker)
	l.rep.Setup = table.Round(time.Since(l.start).Seconds(), 3)
	if trackErr == nil {
		l.awaitEnd(ctx)
	}
	stopTouching()
	stopBar()
	stopSampling()

	end := l.now()
	handedBack, err := tracker.Close()
	if trackErr != nil {
		err = trackErr
	}
	if err != nil {
		return nil, err
	}
	l.rep.LoadedNS = float64(l.perSlab.At(50)) / slab
	l.finish(ctx, end, account{tracker.Stats(), len(handedBack), pauses.Summary()})
	return l.rep, nil
}

// track begins to track all connections.
func (l *load) track(ctx context.Context, t *idle.Tracker) error {
	beats, pings, err := l.cfg.phases(t)
	if err != nil {
		return err
	}
	hooks := l.hooks()
	for i := range l.peers {
		p := &l.peers[i]
		state := uint32(open)
		if p.kind.beats() {
			state = settling
		}
		p.begin(l.now(), state)
		if err := t.Track(l.conn(p), p, hooks); err != nil {
			return fmt.Errorf("connection %d of %d: %w", i, len(l.peers), err)
		}
		switch p.kind {
		case beater:
			l.conn(p).Enter(beats)
		case pinged:
			l.conn(p).Enter(pings)
		}
		p.settled()
		if i%1024 == 0 {
			l.begun.Store(int64(i))
			if ctx.Err() != nil {
				return nil
			}
		}
	}
	l.begun.Store(int64(len(l.peers)))
	return nil
}
