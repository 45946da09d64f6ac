package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/sample"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/idle"
)

// A load is a run of mock connections.
type load struct {
	run

	// The connections' state is apart from what the test knows of them, so
	// that it can be weighed, and lies as densely as in a server that has
	// little else in its connections.
	conns []idle.Conn
	mocks []mock

	begun   atomic.Int64   // how many are tracked
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
	l := &load{perSlab: spread.New(), mocks: make([]mock, cfg.conns)}
	l.init(cfg)
	l.plan(l.peers())
	for i := range l.mocks {
		l.mocks[i].load = l
	}
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
	stopSampling := sample.Every(max(cfg.duration/samplesWanted, time.Millisecond), func() standing {
		st := tracker.Stats()
		return standing{time.Since(l.start), st.Busy, int(st.Live), int(timedOut(st))}
	})
	stopTouching := inParallel(ctx, runtime.GOMAXPROCS(0), len(l.mocks), func(ctx context.Context, from, to int) {
		(&sweeper{load: l, from: from, to: to}).run(ctx)
	})
	stopBar := bar.Show(func() string {
		s := l.line("touches")
		s.live = table.Group(tracker.Stats().Live)
		return s.String()
	})
	trackErr := l.track(ctx, tracker)
	l.rep.Setup = seconds(time.Since(l.start))
	if trackErr == nil {
		l.awaitEnd(ctx)
	}
	stopTouching()
	stopBar()
	l.rep.samples = stopSampling()

	end := l.now()
	handedBack, err := tracker.Close()
	if trackErr != nil {
		err = trackErr
	}
	if err != nil {
		return nil, err
	}
	l.rep.LoadedNS = float64(l.perSlab.At(50)) / slab
	l.finish(ctx, end, l.peers(), tracker.Stats(), len(handedBack), newPause(pauses))
	return l.rep, nil
}

// track begins to track all connections.
func (l *load) track(ctx context.Context, t *idle.Tracker) error {
	beats, pings, err := l.cfg.phases(t)
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

// A standing is how things stood at a moment of the run.
type standing struct {
	at     time.Duration // since the start
	busy   time.Duration // that the tracker has worked till then
	live   int
	closed int
}

const samplesWanted = 100

func timedOut(st idle.Stats) (sum uint64) {
	for _, n := range st.TimedOut {
		sum += n
	}
	return sum
}
