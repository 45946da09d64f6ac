package idle

import (
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// odd is no multiple of a tick, nor is any sum of it that the tests use.
const odd = 3*time.Millisecond + 456789

func TestIdleTimeoutCountsFromTheLastByteOfEitherDirection(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		p := r.peer()
		for range 3 {
			r.lives(p, 900*time.Millisecond+odd)
			r.do(func() { p.Received(1) })
			r.lives(p, 900*time.Millisecond+odd)
			r.do(func() { p.Sent(1) })
		}
		r.dies(p, time.Now(), time.Second, ReasonIdle)
	})
}

func TestIdleTimeoutCountsFromTrack(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second + odd}, nil, func(r *rig) {
		r.wait(odd)
		r.dies(r.peer(), time.Now(), time.Second+odd, ReasonIdle)
	})
}

func TestReadTimeoutIsNotMovedByWrites(t *testing.T) {
	onBoth(t, Policy{ReadTimeout: time.Second}, nil, func(r *rig) {
		p := r.peer()
		r.lives(p, odd)
		r.do(func() { p.Received(1) })
		since := time.Now()
		r.lives(p, 500*time.Millisecond)
		r.do(func() { p.Sent(1) })
		r.dies(p, since, time.Second, ReasonRead)
	})
}

// TestPollingReaderIsTimedOut has a reader whose reads return nothing, and who
// comes back each time.
func TestPollingReaderIsTimedOut(t *testing.T) {
	onBoth(t, Policy{ReadTimeout: time.Second}, nil, func(r *rig) {
		p := r.peer()
		r.lives(p, odd)
		r.do(func() { p.Received(1) })
		since := time.Now()
		for range 9 {
			r.do(p.AwaitRead)
			r.lives(p, 100*time.Millisecond)
		}
		r.dies(p, since, time.Second, ReasonRead)
	})
}

func TestReadTimeoutDoesNotCountWhilePaused(t *testing.T) {
	onBoth(t, Policy{ReadTimeout: time.Second}, nil, func(r *rig) {
		p := r.peer()
		r.lives(p, 900*time.Millisecond+odd)
		r.do(p.PauseRead)
		r.lives(p, 5*time.Second)
		r.do(p.AwaitRead)
		r.dies(p, time.Now(), time.Second, ReasonRead)
	})
}

func TestWriteTimeoutCountsOnlyWhileBytesWait(t *testing.T) {
	onBoth(t, Policy{WriteTimeout: time.Second}, nil, func(r *rig) {
		p := r.peer()
		r.lives(p, 3*time.Second+odd)
		r.do(p.AwaitWrite)
		r.lives(p, 900*time.Millisecond)
		r.do(func() { p.Sent(1) })
		r.lives(p, 900*time.Millisecond)
		r.do(func() { p.Sent(1); p.PauseWrite() })
		r.lives(p, 10*time.Second)
		r.do(p.AwaitWrite)
		since := time.Now()
		r.lives(p, 500*time.Millisecond)
		r.do(func() { p.Received(1) }) // no excuse
		r.dies(p, since, time.Second, ReasonWrite)
	})
}

func TestMinReadRate(t *testing.T) {
	rate := Rate{BytesPerSecond: 100, Grace: 2 * time.Second}
	t.Run("nothing sent", func(t *testing.T) {
		onBoth(t, Policy{MinReadRate: rate}, nil, func(r *rig) {
			r.dies(r.peer(), time.Now(), 2*time.Second, ReasonMinReadRate)
		})
	})
	t.Run("trickle", func(t *testing.T) {
		// At half the rate, a second of grace is used up in two.
		onBoth(t, Policy{MinReadRate: rate}, nil, func(r *rig) {
			p, born := r.peer(), time.Now()
			for len(p.expired) == 0 && time.Since(born) < time.Minute {
				r.do(func() { p.Received(5) })
				r.wait(100 * time.Millisecond)
			}
			if age := p.at.Sub(born); age < 4*time.Second || age > 4*time.Second+2*100*time.Millisecond {
				r.Errorf("timed out after %v: %v", age, p.expired)
			}
		})
	})
	t.Run("enough", func(t *testing.T) {
		onBoth(t, Policy{MinReadRate: rate}, nil, func(r *rig) {
			p := r.peer()
			for range 1000 {
				r.lives(p, 100*time.Millisecond)
				r.do(func() { p.Received(10) })
			}
		})
	})
	t.Run("paused", func(t *testing.T) {
		// A pause between two waits, each time; none owes anything for it.
		onBoth(t, Policy{MinReadRate: rate}, nil, func(r *rig) {
			p := r.peer()
			for range 100 {
				r.lives(p, 100*time.Millisecond)
				r.do(func() { p.Received(10); p.PauseRead() })
				r.lives(p, time.Second)
				r.do(p.AwaitRead)
			}
			r.dies(p, time.Now(), 2*time.Second, ReasonMinReadRate)
		})
	})
}

// TestMinRateIsNeverEarly has a byte pay for a part of a tick, at many instants
// of a tick.
func TestMinRateIsNeverEarly(t *testing.T) {
	onBoth(t, Policy{MinReadRate: Rate{BytesPerSecond: 150, Grace: time.Second}}, nil, func(r *rig) {
		for range 20 {
			r.wait(odd)
			p, born := r.peer(), time.Now()
			r.do(func() { p.Received(1) })
			r.dies(p, born, time.Second+time.Second/150, ReasonMinReadRate)
		}
	})
}

// TestMinRateNearItsEndIsNoticedAtOnce ends a pause when the credit is as good
// as used up: the deadline is nearer than the grace, and than any other.
func TestMinRateNearItsEndIsNoticedAtOnce(t *testing.T) {
	p := Policy{IdleTimeout: 1500 * time.Millisecond, MinWriteRate: Rate{BytesPerSecond: 1000, Grace: 2 * time.Second}}
	onBoth(t, p, nil, func(r *rig) {
		p := r.peer()
		r.lives(p, odd)
		r.do(p.AwaitWrite)
		for range 19 {
			r.lives(p, 100*time.Millisecond)
			r.do(func() { p.Received(1) })
		}
		r.do(p.PauseWrite)
		for range 100 {
			r.lives(p, 100*time.Millisecond)
			r.do(func() { p.Received(1) })
		}
		r.do(p.AwaitWrite) // a tenth of a second is left
		since := time.Now()
		r.wait(100*time.Millisecond + 2*r.late())
		if left := p.at.Sub(since); len(p.expired) != 1 || left < 100*time.Millisecond-r.late() {
			r.Errorf("timed out after %v: %v", left, p.expired)
		}
	})
}

// TestFirstLimitWins has several limits; the nearest names the reason.
func TestFirstLimitWins(t *testing.T) {
	p := Policy{IdleTimeout: 3 * time.Second, ReadTimeout: 2 * time.Second, WriteTimeout: time.Second, MaxAge: time.Minute}
	onBoth(t, p, nil, func(r *rig) {
		a, b, c, since := r.peer(), r.peer(), r.peer(), time.Now()
		r.do(func() { b.AwaitWrite(); c.PauseRead() })
		r.dies(b, since, time.Second, ReasonWrite)
		r.dies(a, since, 2*time.Second, ReasonRead)
		r.dies(c, since, 3*time.Second, ReasonIdle)
	})
}

func TestElapsedIsTrueToTheTick(t *testing.T) {
	onBoth(t, Policy{MaxAge: time.Second, MaxAgeGrace: 2 * time.Second}, nil, func(r *rig) {
		p, born := r.peer(), time.Now()
		r.dies(p, born, 3*time.Second, ReasonMaxAge)
		if e := p.expired[0].Elapsed; e < 3*time.Second-r.opts.Tick || e > 3*time.Second+r.late() {
			r.Errorf("it had lived for 3 s, Elapsed is %v", e)
		}
	})
}

// TestLongestTimeout has a limit of as many ticks as are allowed.
func TestLongestTimeout(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: clock.MaxTicks * defaultTick}, nil, func(r *rig) {
		p, since := r.peer(), time.Now()
		r.wait(clock.MaxTicks*defaultTick + time.Minute)
		if len(p.expired) != 1 || p.at.Sub(since) > clock.MaxTicks*defaultTick+r.late() {
			r.Errorf("not timed out after %v, but looked at %d times", time.Since(since), r.Stats().Checks)
		}
	})
}

// A restarted write has the whole grace and no more: bytes that were paid for before
// it buy no time.
func TestRestartedWriteHasItsGrace(t *testing.T) {
	policy := Policy{MinWriteRate: Rate{BytesPerSecond: 1000, Grace: time.Second}}
	for name, before := range map[string]func(r *rig, p *peer){
		"in advance": func(r *rig, p *peer) { r.do(func() { p.Sent(4 << 20) }); r.lives(p, 3*time.Second) },
		"in debt":    func(r *rig, p *peer) { r.lives(p, 900*time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, policy, nil, func(r *rig) {
				p := r.peer()
				r.do(p.AwaitWrite)
				before(r, p)
				r.do(p.RestartWrite)
				r.dies(p, time.Now(), time.Second, ReasonMinWriteRate)
			})
		})
	}
}

// TestCreditLastsAMinute has many bytes move at once, and then none. They pay for a minute at
// most, whether they were reported one by one or together, in a wait or in a pause.
func TestCreditLastsAMinute(t *testing.T) {
	rate := Rate{BytesPerSecond: 1000, Grace: time.Second}
	for name, pay := range map[string]func(r *rig, p *peer){
		"at once": func(r *rig, p *peer) { r.do(func() { p.Received(4 << 20) }) },
		"in pieces": func(r *rig, p *peer) {
			r.do(func() {
				for range 4 << 10 {
					p.Received(1 << 10)
				}
			})
		},
		"in a pause": func(r *rig, p *peer) {
			r.do(p.PauseRead)
			r.wait(10 * time.Minute)
			r.do(func() { p.Received(4 << 20); p.AwaitRead() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, Policy{MinReadRate: rate}, nil, func(r *rig) {
				p := r.peer()
				pay(r, p)
				since := time.Now()
				r.lives(p, time.Minute)
				r.wait(time.Until(since.Add(time.Minute + time.Second + 3*r.opts.Tick + r.late())))
				if len(p.expired) == 0 {
					t.Error("what was paid in advance lasts longer than a minute")
				}
			})
		})
	}
}
