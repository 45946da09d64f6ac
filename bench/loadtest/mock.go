package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/idle"
)

// A load is a run of mock connections.
type load struct {
	cfg    config
	oracle *oracle
	start  time.Time

	// The connections' state is apart from what the test knows of them, so
	// that it can be weighed, and lies as densely as in a server that has
	// little else in its connections.
	conns []idle.Conn
	mocks []mock

	begun   atomic.Int64 // how many are tracked
	touches atomic.Int64
	perSlab *spread.Spread // how long a slab of touches took
}

// A mock is the owner of a connection, and its peer.
type mock struct {
	peer
	load *load
}

func (m *mock) conn() *idle.Conn { return &m.load.conns[m.id] }

// mockHooks have the oracle judge, and the peer answer pings.
var mockHooks = idle.Hooks{
	Expire: func(owner any, err *idle.TimeoutError) {
		m := owner.(*mock)
		m.load.oracle.expired(&m.peer, m.load.now(), err.Reason)
	},
	Ping: func(owner any) error { return owner.(*mock).ping() },
}

// ping has the peer answer at once, unless it is no longer there.
func (m *mock) ping() error {
	l := m.load
	before := l.now()
	if m.quiet(before) || m.ended() {
		return nil
	}
	m.conn().Touch()
	l.oracle.touched(&m.peer, before, l.now())
	l.touches.Add(1)
	return nil
}

// now is the time since the start in ns, of the monotonic clock.
func (l *load) now() int64 { return int64(time.Since(l.start)) }

func (l *load) peers() iter.Seq[*peer] {
	return func(yield func(*peer) bool) {
		for i := range l.mocks {
			if !yield(&l.mocks[i].peer) {
				return
			}
		}
	}
}

// runMock runs the test over mock connections.
func runMock(ctx context.Context, cfg config, stderr io.Writer) (*report, error) {
	l := &load{cfg: cfg, oracle: newOracle(cfg), perSlab: spread.New()}
	l.mocks = make([]mock, cfg.conns)
	rep := newReport(cfg)
	for plan, i := newPlanner(cfg), 0; i < len(l.mocks); i++ {
		m, life := &l.mocks[i], plan.next()
		m.id, m.load = uint32(i), l
		m.be(life)
		rep.planned(life)
	}

	bar := newProgress(cfg, stderr)
	bar.say("measuring the tracker with %s connections and nothing else", group(cfg.conns))
	figures, conns, err := measure(cfg.conns, cfg.options(nil))
	if err != nil {
		return nil, err
	}
	rep.Figures, l.conns = figures, conns

	pauses := spread.New()
	tracker, err := idle.New(cfg.policy(), cfg.options(pauses))
	if err != nil {
		return nil, err
	}
	l.start = time.Now()
	samples := sampleInBackground(tracker, cfg.duration)
	stopTouching := l.touchInBackground(ctx)
	stopBar := bar.show(func() string { return l.progress(tracker) })
	err = l.track(ctx, tracker)
	rep.Setup = seconds(time.Since(l.start))
	if err == nil {
		awaitEnd(ctx, cfg, l.start, l.oracle, rep.doomed)
	}
	stopTouching()
	stopBar()
	samples.stop()
	rep.samples = samples.all

	end := l.now()
	handedBack, closeErr := tracker.Close()
	switch {
	case err != nil:
		return nil, err
	case closeErr != nil:
		return nil, closeErr
	}
	rep.judge(l.oracle.judge(end, l.peers()), l.oracle.late)
	rep.Duration = seconds(time.Duration(end))
	rep.Touches = l.touches.Load()
	rep.LoadedNS = float64(l.perSlab.At(50)) / slab
	rep.tracker(tracker.Stats(), len(handedBack), newPause(pauses), time.Duration(end))
	rep.Interrupted = ctx.Err() != nil
	return rep, nil
}

// options are the tracker's; pauses, if not nil, learns how long passes take.
func (c *config) options(pauses *spread.Spread) *idle.Options {
	o := &idle.Options{Tick: c.tick, Shards: c.shards}
	if pauses != nil {
		o.OnPass = pauses.Add
	}
	return o
}

// track begins to track all connections.
func (l *load) track(ctx context.Context, t *idle.Tracker) error {
	beats, err := t.Phase(l.cfg.beatPolicy())
	if err != nil {
		return err
	}
	pings, err := t.Phase(l.cfg.pingPolicy())
	if err != nil {
		return err
	}
	for i := range l.mocks {
		m := &l.mocks[i]
		state := uint32(open)
		if m.kind.beats() {
			state = settling
		}
		m.begin(l.now(), state)
		if err := t.Track(m.conn(), m, &mockHooks); err != nil {
			return fmt.Errorf("connection %d of %d: %w", i, len(l.mocks), err)
		}
		switch m.kind {
		case beater:
			m.conn().Enter(beats)
		case pinged:
			m.conn().Enter(pings)
		}
		m.settled()
		if i%1024 == 0 {
			l.begun.Store(int64(i))
			if ctx.Err() != nil {
				return nil
			}
		}
	}
	l.begun.Store(int64(len(l.mocks)))
	return nil
}

// touchInBackground has goroutines be the connections' peers until the function
// that it returns is called, or ctx is done.
func (l *load) touchInBackground(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	n := runtime.GOMAXPROCS(0)
	for i := range n {
		s := sweeper{load: l, from: len(l.mocks) * i / n, to: len(l.mocks) * (i + 1) / n}
		wg.Go(func() { s.run(ctx) })
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

func (l *load) progress(t *idle.Tracker) string {
	st := t.Stats()
	closed, wrong := l.oracle.closed()
	return standing{
		elapsed: time.Since(l.start), duration: l.cfg.duration,
		live:   group(st.Live),
		closed: closed, wrong: wrong,
		activities: l.touches.Load(), what: "touches",
		latest: l.oracle.late.Most(),
	}.String()
}
