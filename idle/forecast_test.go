package idle

import (
	"math/rand/v2"
	"testing"
	"time"
)

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
