package main

import (
	"cmp"
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

	part    part
	passes  *spread.Spread // of the tracker
	begun   atomic.Int64   // how many are tracked
	perSlab *spread.Spread // how long a slab of touches took
}

// A part is what a run does once all connections are tracked, and what it makes of
// those that end.
type part interface {
	play(ctx context.Context, t *idle.Tracker) error
	left(p *peer, now int64)
	expired(p *peer, now int64, err *idle.TimeoutError)
	judge(end int64) judgement
}

// waiting is the part of a run in which connections are left to themselves.
type waiting struct{ *load }

func (w waiting) play(ctx context.Context, _ *idle.Tracker) error {
	w.awaitEnd(ctx)
	return nil
}

func (w waiting) left(p *peer, _ int64) { w.oracle.left(p) }

func (w waiting) expired(p *peer, now int64, err *idle.TimeoutError) {
	if err.Reason == idle.ReasonDrain || err.Reason == idle.ReasonShed {
		w.oracle.endedByHand(p)
		return
	}
	w.oracle.expired(p, now, err.Reason)
}

func (w waiting) judge(end int64) judgement { return w.oracle.judge(end, w.peers) }

func (l *load) conn(p *peer) *idle.Conn { return &l.conns[p.id] }

// hooks have the part judge, and the peer answer pings.
func (l *load) hooks() *idle.Hooks {
	h := &idle.Hooks{
		Expire: func(owner any, err *idle.TimeoutError) { l.part.expired(owner.(*peer), l.now(), err) },
		Ping:   func(owner any) error { return l.ping(owner.(*peer)) },
	}
	if s, steers := l.part.(*steering); steers {
		h.OnDrain = func(any) { s.told.add(l.now() - s.begun) }
	}
	return h
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
	l := newLoad(cfg)
	site, err := cfg.listen()
	if err != nil {
		return nil, err
	}
	defer site.close()
	bar := progress.New(stderr, cfg.progress)
	bar.Say("measuring the tracker with %s connections and nothing else", table.Group(cfg.conns))
	if l.rep.Figures, l.conns, err = measure(len(l.peers), cfg.options(nil)); err != nil {
		return nil, err
	}
	tracker, err := idle.New(cfg.policy(), l.options())
	if err != nil {
		return nil, err
	}
	if err := site.serve(tracker, stderr); err != nil {
		return nil, err
	}
	l.start = time.Now()
	stopSampling := inParallel(ctx, 1, 1, func(ctx context.Context, _, _ int) {
		for ok := true; ok; ok = program.Sleep(ctx, max(cfg.duration/100, time.Millisecond)) {
			st := tracker.Stats()
			l.rep.samples = append(l.rep.samples, standing{time.Since(l.start), st.PassTotal, int(st.Live), int(ended(st))})
		}
	})
	stopTouching := inParallel(ctx, runtime.GOMAXPROCS(0), cfg.conns, func(ctx context.Context, from, to int) {
		l.sweep(ctx, from, to, 32*slab, (&sweeper{load: l}).sweep)
	})
	stopBar := bar.Show(func() string { return l.line() + fmt.Sprintf("  %s live", table.Group(tracker.Stats().Live)) })
	partErr := l.track(ctx, tracker)
	l.rep.Setup = table.Round(time.Since(l.start).Seconds(), 3)
	if partErr == nil {
		partErr = l.part.play(ctx, tracker)
	}
	stopTouching()
	stopBar()
	stopSampling()

	end := l.now()
	handedBack, err := tracker.Close()
	if partErr != nil {
		err = partErr
	}
	if err != nil {
		return nil, err
	}
	l.rep.LoadedNS = float64(l.perSlab.At(50)) / slab
	l.rep.LimitsChanged = site.limitsChanged.Load()
	l.finish(ctx, end, l.part.judge(end), account{tracker.Stats(), len(handedBack), l.passes.Summary()})
	return l.rep, nil
}

// newLoad returns a load that has its connections yet to make.
func newLoad(cfg config) *load {
	l := &load{run: newRun(cfg, cfg.conns, cfg.newcomers()), perSlab: spread.New(), passes: spread.New()}
	l.part = waiting{l}
	if cfg.scenario.steers() {
		l.part = newSteering(l)
	}
	return l
}

// options are the tracker's.
func (l *load) options() *idle.Options {
	o := l.cfg.options(l.passes)
	if s, ok := l.part.(*steering); ok {
		o.OnPass = s.passed
	}
	if l.cfg.http != "" {
		o.Label = label
	}
	return o
}

// rampUp returns over how long the connections are opened.
func (c *config) rampUp() time.Duration {
	return cmp.Or(c.ramp, min(time.Duration(c.conns)*time.Microsecond, c.duration/8))
}

// track begins to track all connections.
func (l *load) track(ctx context.Context, t *idle.Tracker) error {
	beats, pings, err := l.cfg.phases(t)
	if err != nil {
		return err
	}
	hooks := l.hooks()
	for i := range l.cfg.conns {
		p := &l.peers[i]
		state := uint32(open)
		if p.kind.beats() {
			state = settling
		}
		p.begin(l.now(), state)
		if err := t.Track(l.conn(p), p, hooks); err != nil {
			return fmt.Errorf("connection %d of %d: %w", i, l.cfg.conns, err)
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
			at := time.Duration(float64(i) / float64(l.cfg.conns) * float64(l.cfg.rampUp()))
			if !program.Sleep(ctx, at-time.Since(l.start)) {
				return nil
			}
		}
	}
	l.begun.Store(int64(l.cfg.conns))
	return nil
}
