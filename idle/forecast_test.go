package idle

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// oracle does what forecast does, but looks at s at each tick, for a number of ticks.
func (s *snapshot) oracle(of []terms, ticks int64) (f forecast) {
	for from := s.now; s.now < from+ticks; s.now++ {
		for d := next(s, of); d.terms != nil && d.at <= s.now; d = next(s, of) {
			if f.next.terms == nil {
				f.next = d
			}
			switch d.what {
			case end:
				f.end = d
				return f
			case ping:
				s.state = s.state&^missMask | unanswered
				s.pinged = s.now
			case miss:
				s.state += missUnit
				s.pinged = s.now
			case drain:
				s.state |= draining
				s.born = s.now - (d.at - d.from)
			}
		}
	}
	return f
}

// anyForecast returns any policy, and any state that a connection under it may have, with a
// tick of a second.
func anyForecast(rng *rand.Rand) (*Phase, snapshot) {
	seconds := func(least, most int) time.Duration { return time.Duration(least+rng.IntN(most)) * time.Second }
	maybe := func(d time.Duration) time.Duration { return d * time.Duration(rng.IntN(2)) }
	p := Policy{
		IdleTimeout: maybe(seconds(1, 300)), ReadTimeout: maybe(seconds(1, 300)), WriteTimeout: maybe(seconds(1, 300)),
		PhaseTimeout: maybe(seconds(1, 300)), MaxAge: maybe(seconds(1, 200)),
	}
	if p.MaxAge > 0 {
		p.MaxAgeJitter, p.MaxAgeGrace = maybe(seconds(1, 100)), maybe(seconds(1, 100))
	}
	switch rng.IntN(4) {
	case 0:
		p.Heartbeat = Heartbeat{Interval: seconds(1, 60), Timeout: seconds(1, 60), Misses: rng.IntN(5)}
	case 1: // many misses, and Timeout is longer or shorter than Interval
		p.Heartbeat = Heartbeat{Interval: seconds(1, 10), Timeout: seconds(1, 20), Misses: rng.IntN(maxMisses + 1)}
	case 2:
		p.Heartbeat = Heartbeat{Interval: seconds(1, 60), Timeout: maybe(seconds(1, 60)), Misses: rng.IntN(5), Passive: true}
	}
	if rng.IntN(20) == 0 { // as many events as there may be
		p = Policy{Heartbeat: Heartbeat{Interval: 2 * time.Second, Timeout: seconds(1, 4), Misses: maxMisses}, MaxAge: seconds(1, 100), MaxAgeGrace: time.Hour}
	}
	switch rng.IntN(4) {
	case 0:
		p.ReadTotal = seconds(1, 200)
	case 1:
		p.MinReadRate = Rate{100, seconds(1, 200)}
	}
	if rng.IntN(2) == 0 {
		p.MinWriteRate = Rate{100, seconds(1, 200)}
	}
	ph := newPhase(&clock.Clock{Tick: time.Second}, p)

	const now = 1 << 20
	past := func() int64 { return now - rng.Int64N(150) }
	flow := func() flowSnapshot {
		since := past()
		return flowSnapshot{last: past(), waits: rng.IntN(2) == 0, since: since, paid: since + rng.Int64N(300) - 200, owed: ticks(rng.Int64N(300) - 50)}
	}
	s := snapshot{
		moment: moment{now: now}, seed: rng.Uint32(), in: flow(), out: flow(),
		born: past(), began: past(), beat: past(), pinged: past(),
	}
	for _, flag := range []uint32{unanswered, draining, overdueIn, overdueOut} {
		s.state |= flag * rng.Uint32N(2)
	}
	if p.MaxAgeGrace == 0 {
		s.state &^= draining
	}
	if beat := p.Heartbeat; beat.Interval > 0 && !beat.Passive && s.state&unanswered != 0 {
		s.state += missUnit * rng.Uint32N(uint32(beat.misses()))
	}
	return ph, s
}

// TestForecastTickByTick holds forecasts of connections in any state against what happens
// if one looks at them at each tick.
func TestForecastTickByTick(t *testing.T) {
	seed, n := uint64(time.Now().UnixNano()), 20_000
	if testing.Short() {
		n /= 10
	}
	t.Logf("seed %d", seed)
	const horizon = 4000
	ends, happened := 0, map[event]int{}
	for i := range uint64(n) {
		ph, s := anyForecast(rand.New(rand.NewPCG(seed, i)))
		at, begun := s, s.now
		got := s.forecast(ph.limits)
		s = at
		want := s.oracle(ph.limits, horizon)
		same := func(a, b deadline) bool {
			return a.terms == b.terms && (a.terms == nil || a.what == b.what && max(a.at, begun) == max(b.at, begun) && a.from == b.from)
		}
		if got.end.terms != nil && got.end.at >= begun+horizon {
			got.end.terms = nil
		}
		if !same(got.next, want.next) || !same(got.end, want.end) {
			t.Fatalf("seed %d, number %d: by the forecast next %v in %d, end in %d; it was next %v in %d, end in %d\n%+v\n%+v", seed, i,
				got.next.what, got.next.at-begun, got.end.at-begun, want.next.what, want.next.at-begun, want.end.at-begun, ph.policy, at)
		}
		if want.end.terms != nil {
			ends++
		}
		happened[want.next.what]++
	}
	if ends < n/2 || happened[ping] < n/100 || happened[miss] < n/100 || happened[drain] < n/100 {
		t.Errorf("only %d have ended; next was: %v", ends, happened)
	}
}

// A forecaster is a peer that remembers when it ended, and answers no ping.
type forecaster struct {
	Conn
	endedAt time.Time
	err     *TimeoutError
}

func (f *forecaster) Ping() error              { return nil }
func (f *forecaster) OnDrain()                 {}
func (f *forecaster) Expire(err *TimeoutError) { f.endedAt, f.err = time.Now(), err }

// somePolicies set all limits, alone and together.
func somePolicies() []Policy {
	const s = time.Second
	return []Policy{
		{IdleTimeout: 3 * s},
		{ReadTimeout: 5 * s, Name: "read"},
		{WriteTimeout: 2 * s, IdleTimeout: 40 * s, Name: "write"},
		{MaxAge: 9 * s, MaxAgeJitter: 20 * s, MaxAgeGrace: 4 * s, Name: "age"},
		{Heartbeat: Heartbeat{Interval: 7 * s, Timeout: s, Misses: 3}, Name: "pings"},
		{Heartbeat: Heartbeat{Interval: 300 * time.Millisecond, Timeout: 400 * time.Millisecond, Misses: 20}, PhaseTimeout: 30 * s, Name: "often"},
		{Heartbeat: Heartbeat{Interval: 11 * s, Passive: true}, Name: "beats"},
		{ReadTotal: 6 * s, MinWriteRate: Rate{100, 3 * s}, Name: "rates"},
		{IdleTimeout: 90 * s, Heartbeat: Heartbeat{Interval: 20 * s, Timeout: 3 * s}, Name: "late"},
		{Name: "unlimited"},
	}
}

// TestForecast has connections in all kinds of states, takes a census, and leaves them
// alone. They end when the census has said, to the tick.
func TestForecast(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		var phases []*Phase
		for _, p := range somePolicies() {
			phases = append(phases, r.phaseOf(p))
		}
		var all []*forecaster
		for range 2000 {
			f := &forecaster{}
			r.track(&f.Conn, f)
			all = append(all, f)
			r.do(func() { f.Enter(phases[rng.IntN(len(phases))]) })
		}
		for range 500 {
			f := all[rng.IntN(len(all))]
			r.do(func() {
				[]func(){f.Touch, f.TouchOut, f.Beat, f.PauseRead, f.AwaitRead, f.AwaitWrite, func() { f.Received(500) }}[rng.IntN(7)]()
			})
			r.wait(time.Duration(rng.IntN(12)) * time.Millisecond)
		}
		// A census or a page may wait for the pass of the next tick, which may end a
		// connection that was counted already. Then both are taken again.
		var c *Census
		var infos []Info
		for range 10 {
			c = r.census(Query{Sort: NextToEnd})
			infos = r.page(c, 0, c.Len())
			if c.Live == r.Tracker.live() {
				break
			}
		}
		asOf := time.Now()
		if c.Live != r.Tracker.live() || len(infos) != c.Live {
			r.Fatalf("%d live, %d counted, %d described", r.Tracker.live(), c.Live, len(infos))
		}
		r.wait(time.Until(c.At.Add(61 * time.Second)))
		for d := time.Duration(0); d <= time.Minute; d += r.opts.Tick {
			ended := 0
			for _, f := range all {
				if f.err != nil && f.endedAt.After(c.At) && !f.endedAt.After(c.At.Add(d)) {
					ended++
				}
			}
			if got := c.Ending(d); got != ended {
				for _, i := range infos {
					if f := i.Owner.(*forecaster); f.err == nil || f.endedAt.Sub(asOf) != i.EndsIn {
						r.Logf("after %v by %v: %+v", f.endedAt.Sub(asOf), f.err, i)
						break
					}
				}
				r.Fatalf("%d end within %v by the forecast; %d did", got, d, ended)
			}
		}
		if c.Ending(time.Minute) < 500 {
			r.Errorf("only %d have ended", c.Ending(time.Minute))
		}
		last := time.Duration(-1)
		for _, i := range infos {
			f := i.Owner.(*forecaster)
			if f.err == nil {
				if i.EndsBy != 0 && i.EndsIn < time.Minute {
					r.Errorf("%+v has not ended", i)
				}
				continue
			}
			if in := f.endedAt.Sub(asOf); i.EndsIn != in || i.EndsBy != f.err.Reason || in < last {
				r.Fatalf("ended after %v by %v; the forecast was %+v", in, f.err, i)
			}
			last = i.EndsIn
		}
	})
}
