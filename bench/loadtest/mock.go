package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/idle"
)

// A load is a run of mock connections.
type load struct {
	cfg   *config
	peers []peer // by id
	rep   *report
	start time.Time

	// The connections' state is apart from what the test knows of them, so that it lies as
	// densely as in a server that has little else in a connection.
	conns []idle.Conn

	tracker *idle.Tracker
	longest time.Duration // of the tracker's passes; set at the end
	late    stats.Spread  // how late connections are ended
	touches atomic.Int64
	doomed  int64        // how many are meant to be closed
	closed  atomic.Int64 // how many of these are
	tracked atomic.Int64

	begun, stop int64 // when the scenario begins, and when a drain ends the rest
	changed     int64 // when the shorter limit was in force
	told        tally // when connections had their turn, by seconds since begun
}

// newLoad gives its connections lives. Newcomers, who come later, only get an id.
func newLoad(cfg config) *load {
	l := &load{cfg: &cfg, rep: &report{
		Machine: machine.Here(), Conns: cfg.conns, Plan: map[string]int{}, cfg: cfg, Steered: Steered{Scenario: cfg.scenario.name},
		IdleMS: table.Millis(cfg.idle), BeatMS: table.Millis(cfg.heartbeat), TickMS: table.Millis(tick),
	}}
	l.peers = make([]peer, cfg.conns+cfg.newcomers())
	l.conns = make([]idle.Conn, len(l.peers))
	plan := newPlanner(cfg)
	for i := range l.peers {
		p := &l.peers[i]
		if p.id = uint32(i); i >= cfg.conns {
			continue
		}
		p.life = plan.next()
		l.rep.Plan[p.kind.String()]++
		if p.doomed() {
			l.doomed++
		}
	}
	return l
}

// now is the time since the start in ns.
func (l *load) now() int64 { return int64(time.Since(l.start)) }

func (l *load) conn(p *peer) *idle.Conn { return &l.conns[p.id] }

// hooks have the oracle note who ends, and the peer answer pings.
func (l *load) hooks() *idle.Hooks {
	return &idle.Hooks{
		Expire: func(owner any, err *idle.TimeoutError) {
			p := owner.(*peer)
			if p.expired(l.now(), err.Reason); p.doomed() {
				l.closed.Add(1)
			}
		},
		Ping:    func(owner any) error { return l.ping(owner.(*peer)) },
		OnDrain: func(any) { l.told.add(l.now() - l.begun) },
	}
}

// touched notes an activity of p. One that may be evicted has been idle for the grace.
func (l *load) touched(p *peer, before, after int64) {
	limit, _ := l.cfg.of(p.kind)
	if l.cfg.evicts() {
		limit = l.cfg.grace()
	}
	p.touched(before, after, limit)
}

// allowance is how late the tracker may be: a second, and in a scenario, where it has to visit
// all connections, a second for each million.
func (l *load) allowance() int64 {
	visits := time.Second
	if l.cfg.isSteered() {
		visits = max(visits, time.Duration(l.cfg.conns)*time.Microsecond)
	}
	return int64(2*tick + visits)
}

// due is the window of a connection that is left to itself.
func (l *load) due(k kind, e *end) (from, due int64, reason idle.Reason) {
	after, reason := l.cfg.of(k)
	from = e.last&^belated + int64(after)
	return from, from, reason
}

// ping has the peer answer at once, unless it is no longer there.
func (l *load) ping(p *peer) error {
	before := l.now()
	if p.quiet(before) || p.ended() {
		return nil
	}
	l.conn(p).Touch()
	l.touched(p, before, l.now())
	l.touches.Add(1)
	return nil
}

// run runs the test.
func (c *config) run(ctx context.Context, _ func(string, ...any)) (*report, error) {
	l := newLoad(*c)
	var err error
	if l.tracker, err = idle.New(c.policy(), &idle.Options{Tick: tick}); err != nil {
		return nil, err
	}
	l.start = time.Now()
	sweeping, stop := context.WithCancel(ctx)
	defer stop()
	var sweepers sync.WaitGroup
	n := runtime.GOMAXPROCS(0)
	for i := range n {
		sweepers.Go(func() { (&sweeper{load: l}).run(sweeping, c.conns*i/n, c.conns*(i+1)/n) })
	}
	err = l.track(ctx)
	l.rep.Setup = table.Round(time.Since(l.start).Seconds(), 3)
	if err == nil && (!c.isSteered() || l.await(ctx, 0.25)) {
		l.begun = l.now()
		err = c.scenario.play(l, ctx)
	}
	stop()
	sweepers.Wait()
	end := l.now()
	handedBack, closeErr := l.tracker.Close()
	if err := cmp.Or(err, closeErr, ctx.Err()); err != nil {
		return nil, err
	}
	counts := l.tracker.Stats()
	l.longest = counts.Longest
	for i := range l.peers {
		l.rep.judge(&l.peers[i], end, l)
	}
	l.rep.Expected = l.rep.Closed - l.rep.Early + l.rep.Missed
	if c.scenario.check(l); c.isSteered() {
		l.limit("late_ms", table.Millis(l.late.At(100)), table.Millis(time.Duration(l.allowance())))
	}
	l.rep.finish(l, end, counts, len(handedBack))
	return l.rep, nil
}

// awaitEnd returns when the run is over: its duration has passed, and all of the doomed are
// closed, or nothing closes them any more.
func (l *load) awaitEnd(ctx context.Context) error {
	const patience = 5 * time.Second // with a machine that can't keep up, since one was closed
	program.Sleep(ctx, l.cfg.duration-time.Since(l.start))
	for closed, since := int64(-1), time.Now(); closed < l.doomed && time.Since(since) < patience; {
		if !program.Sleep(ctx, 20*time.Millisecond) {
			return nil
		}
		if n := l.closed.Load(); n != closed {
			closed, since = n, time.Now()
		}
	}
	return nil
}

// track begins to track all connections.
func (l *load) track(ctx context.Context) error {
	beats, pings, err := l.cfg.phases(l.tracker)
	if err != nil {
		return err
	}
	hooks := l.hooks()
	for i := range l.cfg.conns {
		p := &l.peers[i]
		p.begin(l.now())
		if err := l.tracker.Track(l.conn(p), p, hooks); err != nil {
			return fmt.Errorf("connection %d of %d: %w", i, l.cfg.conns, err)
		}
		switch p.kind {
		case beater:
			l.conn(p).Enter(beats)
		case pinged:
			l.conn(p).Enter(pings)
		}
		if i%1024 == 0 {
			l.tracked.Store(int64(i))
			at := min(time.Microsecond, l.cfg.duration/8/time.Duration(l.cfg.conns)) * time.Duration(i) // a second for each million
			if !program.Sleep(ctx, at-time.Since(l.start)) {
				return nil
			}
		}
	}
	l.tracked.Store(int64(l.cfg.conns))
	return nil
}

// A slab of connections is touched between two readings of the clock, so that the load
// is made of touches and not of clock readings.
const slab = 64

// A sweeper plays a share of the connections: it comes past each again and again, and
// does what its life says.
type sweeper struct {
	load  *load
	deeds []deed // of a slab, which are activities
}

type deed struct {
	*peer
	action
}

// run comes past the connections from one to another, evenly over the sweep's time,
// until ctx is done.
func (s *sweeper) run(ctx context.Context, from, to int) {
	const step = 32 * slab
	period := s.load.cfg.sweepTime()
	for next := time.Now(); program.Sleep(ctx, time.Until(next)); {
		for i := from; i < to; i += step {
			share := float64(i-from) / float64(to-from)
			ahead := time.Until(next.Add(time.Duration(share * float64(period))))
			if ahead > time.Millisecond && !program.Sleep(ctx, ahead) || ctx.Err() != nil {
				return
			}
			last := min(i+step, to, int(s.load.tracked.Load()))
			for at := i; at < last; at += slab {
				s.pass(at, min(at+slab, last))
			}
		}
		if next = next.Add(period); time.Now().After(next) { // lost time is not made up for
			next = time.Now()
		}
	}
}

// pass comes past a slab of connections.
func (s *sweeper) pass(from, to int) {
	s.deeds = s.deeds[:0]
	l, now := s.load, s.load.now()
	for i := from; i < to; i++ {
		p := &l.peers[i]
		if p.ended() {
			continue
		}
		switch a := p.does(now, l.cfg); a {
		case nothing:
		case leaves:
			if l.conn(p).Stop() {
				p.left()
			}
		case works, rests:
			s.work(p, a)
		default:
			s.deeds = append(s.deeds, deed{p, a})
		}
	}
	before := l.now()
	for _, d := range s.deeds {
		if d.action == beats {
			l.conn(d.peer).Beat()
		} else {
			l.conn(d.peer).Touch()
		}
	}
	after := l.now()
	for _, d := range s.deeds {
		if d.action != talks { // which must not save it
			l.touched(d.peer, before, after)
		}
	}
	l.touches.Add(int64(len(s.deeds)))
}

// work has a worker begin or finish. Both are activities. It is noted as busy for no longer
// than it is.
func (s *sweeper) work(p *peer, a action) {
	c, before := s.load.conn(p), s.load.now()
	c.Touch()
	if a == works {
		c.PauseRead()
		p.state.CompareAndSwap(open, working)
	}
	s.load.touched(p, before, s.load.now())
	if a == rests {
		p.state.CompareAndSwap(working, rested)
		c.AwaitRead()
	}
}
