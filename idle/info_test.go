package idle

import (
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestInfoOfABlockedLoop describes connections of a loop that was blocked: one that is overdue, and
// then one whose policy was replaced meanwhile. The function is called in the same pass, before
// anybody else has looked at the connection.
func TestInfoOfABlockedLoop(t *testing.T) {
	inBubble(t, Policy{Name: "old", IdleTimeout: time.Second}, nil, true, func(r *rig) {
		p := r.peer()
		resume := r.block()
		r.wait(time.Minute)
		if i, ok := r.shard.info(&p.Conn, r.clock.Moment()); !ok || i.EndsIn > -59*time.Second+r.late() || i.EndsBy != ReasonIdle {
			r.Errorf("overdue: %+v", i)
		}
		resume()
	})
	inBubble(t, Policy{Name: "old", IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		p := r.peer()
		resume := r.block()
		check(r, r.SetPolicy(Policy{Name: "new", IdleTimeout: time.Minute}))
		w := r.goVisiting()
		resume()
		r.finishes(w, 1)
		if i := w.visits()[0]; i.Owner != p || i.Phase != "new" || i.EndsIn > time.Minute+r.late() {
			r.Errorf("replaced: %+v", i)
		}
	})
}

// TestUnsent asks for bytes that wait for peers: those of connections on which a write waits.
func TestUnsent(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, &Options{Logger: slog.New(slog.DiscardHandler)}, func(r *rig) {
		want := map[any]int{}
		for _, unsent := range []int{100, 2_000_000_000, 0, -5, math.MaxInt32} {
			s := r.with(&peer{unsent: func() int {
				if unsent == math.MaxInt32 {
					panic("unsent")
				}
				return unsent
			}})
			r.do(s.AwaitWrite)
			if want[s] = max(unsent, 0); unsent == math.MaxInt32 {
				want[s] = 0
			}
		}
		paused := r.with(&peer{unsent: func() int { return 1 << 20 }}) // no write waits
		want[paused], want[r.peer()] = 0, 0                            // the latter can't tell
		if err := r.Visit(r.Context(), func(i Info) {
			if n, ok := want[i.Owner]; !ok || i.Unsent() != n {
				r.Errorf("%d bytes, want %d", i.Unsent(), n)
			}
			delete(want, i.Owner)
		}); err != nil || len(want) > 0 {
			r.Errorf("%d weren't visited: %v", len(want), err)
		}
		if n := r.Stats().Panics; n != 1 {
			r.Errorf("%d panics", n)
		}
	})
}

// TestDeliverBesideEndIfIdle delivers a byte while it's decided whether the connection is idle. It
// isn't ended, and its answer isn't cut.
func TestDeliverBesideEndIfIdle(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		d := r.deliverer()
		r.wait(time.Second)
		for want := 1; want <= 2; want++ {
			r.endInVisit(func(i *Info) { i.EndIfIdle("test") })
			if d.probes != want || d.Live() != (want == 1) {
				r.Errorf("examined %d times, want %d; ended by %v", d.probes, want, d.expired)
			}
			r.wait(time.Second)
		}
	})
}

// TestIdleAfterAStall has a connection be active while the driver stands still, so that its stamp is
// old. It isn't idle for longer because of that.
func TestIdleAfterAStall(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Hour}, &Options{Shards: 1}, func(r *rig) {
		p, quiet, stalls := r.peer(), r.peer(), r.with(&peer{onExpire: func() { time.Sleep(time.Second) }})
		r.wait(100 * time.Millisecond)
		p.Touch()
		r.wait(r.opts.Tick)
		stalls.End("") // Expire is called by the driver
		r.wait(900 * time.Millisecond)
		p.Touch()
		active := time.Now()
		r.wait(200 * time.Millisecond)
		all := r.infos()
		if since := time.Since(active); all[p].Idle > since || all[quiet].Idle < time.Second {
			r.Errorf("%v after it was active: %+v; the quiet one: %+v", since, all[p], all[quiet])
		}
		p.End("")
		r.wait(r.late())
		if len(p.expired) != 1 || p.expired[0].Elapsed > time.Since(active) {
			r.Errorf("%v after it was active: %v", time.Since(active), p.expired)
		}
	})
}

// TestEndOneByHand ends a busy connection. A second End has no effect.
func TestEndOneByHand(t *testing.T) {
	onBoth(t, Policy{Name: "chat", IdleTimeout: time.Hour, NoInterrupt: true}, nil, func(r *rig) {
		g := r.guests(1)[0]
		time.Sleep(3 * time.Second)
		waiting := 0
		r.do(func() {
			g.End("banned")
			for range 100 {
				g.End("once more")
			}
			if r.shard != nil { // on its loop, so no pass comes in between
				waiting = len(r.shard.mail.tasks)
			}
		})
		if waiting > 1 {
			t.Errorf("%d tasks wait for one connection", waiting)
		}
		r.wait(100 * time.Millisecond)
		if g.err() == nil || g.err().Reason != ReasonShed || g.err().Cause != "banned" || !g.toldAt().IsZero() {
			t.Fatalf("%v", g.err())
		}
		if s := g.err().Error(); s != "i/o timeout: chat: ended by shed (banned), idle for "+g.err().Elapsed.String() || g.err().Elapsed < 3*time.Second || g.err().Elapsed > 4*time.Second {
			t.Error(s)
		}
		g.End("dead")
		r.wait(time.Second)
		if st := r.Stats(); st.Shed != 1 || len(st.Causes) != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestEndDuringOnTimeout ends a connection while OnTimeout is running, and within it, even
// if that says to keep the connection.
func TestEndDuringOnTimeout(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		within := &peer{}
		within.keep = func(*TimeoutError) bool { within.End("within"); return true }
		r.track(&within.Conn, within)
		beside := r.with(&peer{keep: func(*TimeoutError) bool { time.Sleep(100 * time.Millisecond); return true }})
		r.wait(time.Second + r.late())
		beside.End("beside")
		r.wait(100*time.Millisecond + r.late())
		for _, k := range []*peer{within, beside} {
			if len(k.asked) != 1 || len(k.expired) != 1 || k.expired[0].Reason != ReasonShed {
				t.Errorf("asked %v, expired %v", k.asked, k.expired)
			}
		}
		if st := r.Stats(); st.Shed != 2 || st.Live != 0 || st.Causes["within"] != 1 || st.Causes["beside"] != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestReplaceBesideABlockedLoop replaces a policy again and again. The healthy shards follow
// each time, and the visits of the other one do not pile up.
func TestReplaceBesideABlockedLoop(t *testing.T) {
	onStuck(t, Policy{IdleTimeout: 24 * time.Hour}, func(r *rig) {
		all := r.peers(10)
		for n := range 20 {
			check(r, r.SetPolicy(Policy{IdleTimeout: time.Duration(40-n) * time.Hour}))
			r.wait(time.Second)
		}
		check(r, r.SetPolicy(Policy{IdleTimeout: time.Minute}))
		begun := time.Now()
		for _, p := range all {
			r.dies(p, begun.Add(-20*time.Second), time.Minute, ReasonIdle)
		}
		if n := len(r.loops[0].visits.all); n != 1 {
			r.Errorf("%d visits wait for the blocked loop, want 1", n)
		}
	})
}

// onStuck runs a test on a tracker with a loop that never runs what it is given, and on whose
// shard there is a connection.
func onStuck(t *testing.T, p Policy, test func(*rig)) {
	onDriver(t, p, nil, func(r *rig) {
		stuck, err := r.NewShard(func(func()) error { return nil })
		check(r, err)
		p := &peer{}
		check(r, stuck.Track(&p.Conn, p, hooksOf(p)))
		test(r)
		if _, err := stuck.Close(); err != nil {
			r.Error(err)
		}
	})
}

// TestForecast has connections in all kinds of states, visits them, and leaves them alone. They end when EndsIn has said, to the
// tick.
func TestForecast(t *testing.T) {
	const s = time.Second
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		rng, phases := rand.New(rand.NewPCG(1, 2)), []*Phase{r.phase}
		for reason := ReasonIdle; reason < numLimits; reason++ {
			phases = append(phases, r.phaseOf(limited(Policy{}, reason, time.Duration(1+rng.IntN(50))*s)))
		}
		for _, p := range []Policy{
			{MaxAge: 9 * s, MaxAgeJitter: 20 * s, MaxAgeGrace: 4 * s},
			{Heartbeat: Heartbeat{Interval: 300 * time.Millisecond, Timeout: 400 * time.Millisecond, Misses: 20}, PhaseTimeout: 30 * s},
			{IdleTimeout: 50 * s, ExplicitUse: true, Heartbeat: Heartbeat{Interval: 7 * s, Timeout: 3 * s, Misses: 3}},
		} {
			phases = append(phases, r.phaseOf(p))
		}
		var all []*peer
		for range 1000 {
			p := r.pinged()
			all = append(all, p)
			r.do(func() { p.Enter(phases[rng.IntN(len(phases))]) })
		}
		for range 500 {
			p := all[rng.IntN(len(all))]
			r.do([]func(){p.Touch, p.TouchOut, p.Use, p.Beat, p.PauseRead, p.AwaitRead, p.AwaitWrite, func() { p.Received(500) }}[rng.IntN(8)])
			r.wait(time.Duration(rng.IntN(12)) * time.Millisecond)
		}
		asOf, infos := map[any]time.Time{}, map[any]Info{}
		check(r, r.Visit(r.Context(), func(i Info) { asOf[i.Owner], infos[i.Owner] = time.Now(), i }))
		r.wait(time.Minute)
		ends := 0
		for _, p := range all {
			i, visited := infos[p]
			switch {
			case !visited && p.Live(), p.Live() && i.EndsBy != 0 && i.EndsIn < 59*s:
				r.Errorf("%+v has not ended", i)
			case visited && !p.Live():
				if ends++; i.EndsIn != p.at.Sub(asOf[p]) || i.EndsBy != p.err().Reason {
					r.Errorf("ended after %v by %v; the forecast was %+v", p.at.Sub(asOf[p]), p.err(), i)
				}
			}
		}
		if ends < 300 {
			r.Errorf("only %d have ended", ends)
		}
	})
}
