package idle

import (
	"math/rand/v2"
	"testing"
	"time"
)

// naps lets the clock nap as it does by default.
func naps(t *testing.T, test func(*rig, []*peer)) {
	for _, on := range []func(*testing.T, Policy, *Options, func(*rig)){
		onDriver, func(t *testing.T, p Policy, o *Options, test func(*rig)) { inBubble(t, p, o, true, test) },
	} {
		on(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
			r.clock.allowance.each, r.clock.allowance.most = r.opts.Tick/readsPerTick, burstOfReads*(r.opts.Tick/readsPerTick)
			r.vigil = vigil{few: fewStirs, need: leastQuiet, most: mostQuiet}
			var all []*peer
			for range 2 * burstOfReads {
				all = append(all, r.peer())
			}
			r.wait(time.Second)
			if !r.clock.sleeping() {
				r.Fatal("awake although silent")
			}
			test(r, all)
		})
	}
}

// TestFewActivitiesDoNotWakeTheClock has as many as a chat server with 3,000 clients, of
// which each says something twice a minute.
func TestFewActivitiesDoNotWakeTheClock(t *testing.T) {
	naps(t, func(r *rig, all []*peer) {
		for i := range 6000 {
			p := all[i%len(all)]
			r.do(func() { p.PauseRead(); p.Touch(); p.AwaitRead() })
			if got, want := p.in.stamp.Load(), stampOf(r.clock.now()); got != want {
				r.Fatalf("stamp %d in tick %d", got, want)
			}
			if !r.clock.sleeping() {
				r.Fatalf("awake after %d activities", i)
			}
			r.wait(10 * time.Millisecond)
		}
	})
}

// TestManyActivitiesWakeTheClock has more of them than it may sleep through, and then few.
func TestManyActivitiesWakeTheClock(t *testing.T) {
	naps(t, func(r *rig, all []*peer) {
		r.do(func() {
			for _, p := range all {
				p.Touch()
			}
		})
		if r.clock.sleeping() {
			r.Error("asleep after a burst")
		}
		for range 100 {
			r.do(func() {
				for _, p := range all[:2*fewStirs] {
					p.Touch()
				}
			})
			r.wait(r.opts.Tick)
			if r.clock.sleeping() {
				r.Fatal("asleep while active")
			}
		}
		for range 3 * leastQuiet {
			r.do(all[0].Touch)
			r.wait(r.opts.Tick)
		}
		if !r.clock.sleeping() {
			r.Error("awake although there is little activity")
		}
	})
}

// TestClockDoesNotFlap has one connection that is active all the time. While the clock
// runs that is one slow path a tick, and while it sleeps they are many.
func TestClockDoesNotFlap(t *testing.T) {
	naps(t, func(r *rig, all []*peer) {
		slept, sleeping := 0, true
		for range 20 * time.Second / r.opts.Tick {
			r.do(func() {
				for range 2 * burstOfReads {
					all[0].Touch()
				}
			})
			if now := r.clock.sleeping(); now != sleeping {
				if sleeping = now; sleeping {
					slept++
				}
			}
			r.wait(r.opts.Tick)
		}
		// It sleeps after 8 ticks, or 16, 32, and so on up to 512.
		if slept > 12 {
			r.Errorf("it fell asleep %d times", slept)
		}
	})
}

// TestDueWakesASleepingDriver has a nearer deadline begin while the clock sleeps.
func TestDueWakesASleepingDriver(t *testing.T) {
	naps(t, func(r *rig, all []*peer) {
		soon := r.phaseOf(Policy{IdleTimeout: time.Second})
		r.wait(odd)
		r.do(func() { all[0].Enter(soon) })
		r.dies(all[0], time.Now(), time.Second, ReasonIdle)
		if !r.clock.sleeping() {
			r.Error("the clock has run")
		}
	})
}

// TestAllowance compares an allowance with a bucket of tokens.
func TestAllowance(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	a := allowance{each: 50, most: 50 * 20}
	at, bucket, filled := time.Duration(10_000), int64(50*20), time.Duration(10_000)
	taken := 0
	for range 100_000 {
		at += []time.Duration{time.Duration(rng.IntN(20)), time.Duration(rng.IntN(100)), time.Duration(rng.IntN(200))}[rng.IntN(3)*rng.IntN(2)]
		bucket = min(bucket+int64(at-filled), 50*20)
		filled = at
		want := bucket >= 50
		if want {
			bucket -= 50
			taken++
		}
		if got := a.take(at); got != want {
			t.Fatalf("at %d: %v, want %v", at, got, want)
		}
	}
	if taken < 10_000 || taken > 90_000 {
		t.Errorf("%d taken", taken)
	}
	a.withdraw()
	if a.take(at + time.Hour) {
		t.Error("taken although it was withdrawn")
	}
	a.grant()
	if !a.take(at) {
		t.Error("refused although it was granted")
	}
}

// BenchmarkTouchAsleep is an activity while the clock sleeps. It has to be compared with
// BenchmarkWakeUp.
func BenchmarkTouchAsleep(b *testing.B) {
	t, err := New(Policy{IdleTimeout: time.Hour}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer t.Close()
	t.clock.allowance.each = 0
	p := &peer{}
	if err := t.Track(&p.Conn, p, hooksOf(p)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p.Touch()
	}
}
