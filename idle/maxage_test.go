package idle

import (
	"testing"
	"time"
)

// TestMaxAge checks that traffic does not help, and that the jitter spreads the
// ends of connections that began together over all of it.
func TestMaxAge(t *testing.T) {
	p := Policy{MaxAge: time.Minute, MaxAgeJitter: 10 * time.Second, IdleTimeout: 10 * time.Second}
	onBoth(t, p, nil, func(r *rig) {
		const n = 200
		var peers [n]*peer
		for i := range peers {
			peers[i] = r.peer()
		}
		born := time.Now()
		for range 75 {
			r.wait(time.Second)
			r.do(func() {
				for _, p := range peers {
					p.Received(1)
				}
			})
		}
		var tenths [10]int
		for _, p := range peers {
			age := p.at.Sub(born)
			if len(p.expired) != 1 || p.expired[0].Reason != ReasonMaxAge || age < time.Minute || age > 70*time.Second+r.late() {
				r.Fatalf("timed out after %v: %v", age, p.expired)
			}
			tenths[min(9, int((age-time.Minute)/time.Second))]++
		}
		for i, n := range tenths {
			if n == 0 {
				r.Errorf("nobody ended in second %d of the jitter: %v", i, tenths)
			}
		}
	})
}

// A drainer finishes within the grace after its age.
type drainer struct {
	peer
	drained []time.Time
}

func (p *drainer) OnDrain() { p.drained = append(p.drained, time.Now()) }

func TestMaxAgeThenGrace(t *testing.T) {
	policy := Policy{MaxAge: time.Minute, MaxAgeJitter: 10 * time.Second, MaxAgeGrace: 5 * time.Second}
	onBoth(t, policy, nil, func(r *rig) {
		p, born := &drainer{}, time.Now()
		r.track(&p.Conn, p)
		r.wait(70*time.Second + r.late())
		if len(p.drained) != 1 {
			r.Fatalf("drained at %v", p.drained)
		}
		if age := p.drained[0].Sub(born); age < time.Minute {
			r.Errorf("drained after %v", age)
		}
		r.wait(10 * time.Second)
		if grace := p.at.Sub(p.drained[0]); len(p.expired) != 1 || grace < 5*time.Second-r.opts.Tick || grace > 5*time.Second+r.late() {
			r.Errorf("timed out %v after OnDrain by %v", grace, p.expired)
		}
	})
}

// TestMaxAgeGraceCountsFromOnDrain enters a phase whose age is long past: the owner has
// to have its grace all the same.
func TestMaxAgeGraceCountsFromOnDrain(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		p := &drainer{}
		r.track(&p.Conn, p)
		r.wait(time.Minute)
		aged := r.phaseOf(Policy{MaxAge: time.Second, MaxAgeGrace: 10 * time.Second})
		r.do(func() { p.Enter(aged) })
		r.wait(5 * time.Second)
		if len(p.drained) != 1 || len(p.expired) != 0 {
			r.Fatalf("drained at %v, timed out: %v", p.drained, p.expired)
		}
		r.dies(&p.peer, p.drained[0], 10*time.Second, ReasonMaxAge)
	})
}

// TestEnterWhileDraining enters a phase with a longer MaxAge when the owner has been asked to finish.
// It's asked again when that has passed, and the connection ends after the grace of that phase.
func TestEnterWhileDraining(t *testing.T) {
	onBoth(t, Policy{MaxAge: 10 * time.Second, MaxAgeGrace: 5 * time.Second}, nil, func(r *rig) {
		next := r.phaseOf(Policy{MaxAge: time.Minute, MaxAgeGrace: 10 * time.Second})
		p := &drainer{}
		r.track(&p.Conn, p)
		r.wait(12 * time.Second)
		r.do(func() { p.Enter(next) })
		r.lives(&p.peer, 50*time.Second)
		r.dies(&p.peer, p.drained[1], 10*time.Second, ReasonMaxAge)
		if len(p.drained) != 2 {
			r.Errorf("told %d times", len(p.drained))
		}
	})
}

// TestReplacedAge has the owner told again when the age changes in its grace.
func TestReplacedAge(t *testing.T) {
	onBoth(t, Policy{MaxAge: time.Second, MaxAgeGrace: time.Minute}, nil, func(r *rig) {
		p := &drainer{}
		r.track(&p.Conn, p)
		since := time.Now()
		r.wait(2 * time.Second)
		r.setPolicy(Policy{MaxAge: 10 * time.Second, MaxAgeGrace: 5 * time.Second})
		r.wait(time.Until(since.Add(15 * time.Second)))
		r.lives(&p.peer, 0)
		r.wait(3 * r.late()) // each time that it is told may be late
		if len(p.drained) != 2 || len(p.expired) != 1 || p.expired[0].Reason != ReasonMaxAge {
			r.Errorf("told %d times, expired by %v", len(p.drained), p.expired)
		}
	})
}

// TestReplacedJitter has the grace, which the owner was told of, last in full though the
// age is another one.
func TestReplacedJitter(t *testing.T) {
	onBoth(t, Policy{MaxAge: time.Second, MaxAgeJitter: time.Hour, MaxAgeGrace: 10 * time.Second}, nil, func(r *rig) {
		p := &drainer{}
		r.track(&p.Conn, p)
		for len(p.drained) == 0 {
			r.wait(time.Second)
		}
		r.setPolicy(Policy{MaxAge: time.Second, MaxAgeGrace: time.Hour})
		r.wait(time.Second)
		r.lives(&p.peer, time.Until(p.drained[0].Add(time.Hour-1)))
		r.wait(2 * r.late())
		if len(p.expired) != 1 {
			r.Error("not ended after the grace")
		}
	})
}

// TestReplacedAgeThatHasPassed gives a connection in its grace a shorter age, in two phases, and it goes
// from one to the other before it is visited. It isn't told again, and the grace counts from when it was.
func TestReplacedAgeThatHasPassed(t *testing.T) {
	inBubble(t, Policy{MaxAge: 10 * time.Second, MaxAgeGrace: time.Hour}, nil, true, func(r *rig) {
		next := r.phaseOf(r.Tracker.Policy())
		p := &drainer{}
		r.track(&p.Conn, p)
		r.wait(20 * time.Second)
		r.do(func() { // no pass in between
			to := Policy{MaxAge: 5 * time.Second, MaxAgeGrace: 20 * time.Second}
			r.setPolicy(to)
			if err := next.SetPolicy(to); err != nil {
				r.Error(err)
			}
			p.Enter(next)
		})
		r.dies(&p.peer, p.drained[0], 20*time.Second, ReasonMaxAge)
		if len(p.drained) != 1 {
			r.Errorf("told %d times", len(p.drained))
		}
	})
}

// TestMaxAgeAmongSwings has limits swing between two policies all the time, because memory runs out or
// because phases alternate. The owner is told once for each age at most, and the connection ends in
// time: after the longer age and its grace, or when the shorter age and its grace have passed and it is
// in force.
func TestMaxAgeAmongSwings(t *testing.T) {
	const grace = 5 * time.Minute
	for name, test := range map[string]struct {
		ages  [2]time.Duration
		grace time.Duration
		every time.Duration
		last  time.Duration // the greatest age at the end
	}{
		"slow":       {[2]time.Duration{4 * time.Hour, time.Hour}, grace, 4 * time.Minute, time.Hour + grace + 2*4*time.Minute},
		"odd":        {[2]time.Duration{4 * time.Hour, time.Hour}, grace, 7 * time.Minute, time.Hour + grace + 2*7*time.Minute},
		"hardly not": {[2]time.Duration{time.Hour, time.Hour - time.Minute}, time.Minute, 30 * time.Second, time.Hour + time.Minute},
		"phases":     {[2]time.Duration{time.Hour, 30 * time.Minute}, time.Minute, 30 * time.Second, 30*time.Minute + 3*time.Minute},
		"rarely":     {[2]time.Duration{4 * time.Hour, time.Hour}, grace, 3 * time.Hour, 3*time.Hour + grace},
	} {
		for _, enters := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				policies := [2]Policy{{MaxAge: test.ages[0], MaxAgeGrace: test.grace}, {MaxAge: test.ages[1], MaxAgeGrace: test.grace}}
				onBoth(t, policies[0], nil, func(r *rig) {
					phases := [2]*Phase{r.Initial(), r.phaseOf(policies[1])}
					p, born := &drainer{}, time.Now()
					r.track(&p.Conn, p)
					for i := 1; p.Live() && time.Since(born) < 5*time.Hour; i++ {
						r.wait(test.every)
						if enters {
							r.do(func() { p.Enter(phases[i%2]) })
						} else {
							r.setPolicy(policies[i%2])
						}
					}
					if r.wait(0); p.Live() {
						r.Fatalf("it lives; told %d times", len(p.drained))
					}
					age := p.at.Sub(born)
					if n := len(p.drained); n < 1 || n > 2 || age > test.last+2*r.late() || p.drained[0].Sub(born) < test.ages[1] || p.at.Sub(p.drained[0]) < test.grace-r.opts.Tick {
						r.Errorf("ended at the age of %v, want at most %v; told at %v; born %v", age, test.last, p.drained, born)
					}
				})
			})
		}
	}
}

// TestShorterMaxAgeForAWhile has the owner told of a shorter age, which is in force for a minute only. It's
// told again when the longer one has passed, and has the grace of that.
func TestShorterMaxAgeForAWhile(t *testing.T) {
	long, short := Policy{MaxAge: 4 * time.Hour, MaxAgeGrace: 5 * time.Minute}, Policy{MaxAge: time.Hour, MaxAgeGrace: 5 * time.Minute}
	onBoth(t, long, nil, func(r *rig) {
		phase := r.phaseOf(short)
		p, born := &drainer{}, time.Now()
		r.track(&p.Conn, p)
		for _, at := range []time.Duration{3 * time.Hour, 3*time.Hour + 30*time.Minute} {
			r.wait(time.Until(born.Add(at)))
			r.do(func() { p.Enter(phase) })
			if at > 3*time.Hour {
				break // the grace of that has passed, so it ends
			}
			r.wait(time.Minute)
			r.do(func() { p.Enter(r.Initial()) })
		}
		r.wait(r.late())
		if age := p.at.Sub(born); len(p.expired) != 1 || age < 3*time.Hour+30*time.Minute || len(p.drained) != 1 {
			r.Errorf("ended at the age of %v; told %d times", age, len(p.drained))
		}
		p, born = &drainer{}, time.Now()
		r.track(&p.Conn, p)
		r.wait(3 * time.Hour)
		r.do(func() { p.Enter(phase) })
		r.wait(time.Minute)
		r.do(func() { p.Enter(r.Initial()) })
		r.lives(&p.peer, time.Hour+3*time.Minute)
		r.dies(&p.peer, born, 4*time.Hour+5*time.Minute, ReasonMaxAge)
		if len(p.drained) != 2 {
			r.Errorf("told %d times", len(p.drained))
		}
		if e := p.expired[0].Elapsed; e < 4*time.Hour+5*time.Minute-r.opts.Tick {
			r.Errorf("Elapsed is %v", e)
		}
	})
}
