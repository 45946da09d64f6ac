package idle

import (
	"strings"
	"testing"
	"time"
)

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
					p, born := r.peer(), time.Now()
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

func (r *rig) setPolicy(p Policy) {
	r.Helper()
	check(r, r.Tracker.SetPolicy(p))
}

// TestEnterKeepsWaits has phases begin while reads wait, and a write does.
func TestEnterKeepsWaits(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		p, reads, writes, since := r.peer(), r.peer(), r.peer(), time.Now()
		write := r.phaseOf(Policy{WriteTimeout: time.Second})
		r.do(func() {
			p.Enter(write)
			reads.Enter(r.phaseOf(Policy{ReadTimeout: time.Second}))
			writes.AwaitWrite()
			writes.Enter(write)
		})
		r.dies(reads, since, time.Second, ReasonRead)
		r.dies(writes, since, time.Second, ReasonWrite)
		r.lives(p, time.Minute)
	})
}

// TestRefusedPolicyChangesNothing, and one without a name leaves the phase its name.
func TestRefusedPolicyChangesNothing(t *testing.T) {
	policy := Policy{IdleTimeout: time.Second}
	onDriver(t, policy, nil, func(r *rig) {
		exempt, login := r.phaseOf(Policy{}), r.phaseOf(Policy{Name: "login", PhaseTimeout: time.Minute})
		p := r.peer()
		for want, got := range map[string]error{
			"IdleTimeout is -1s":           r.SetPolicy(Policy{IdleTimeout: -time.Second}),
			"at least one of IdleTimeout":  r.SetPolicy(Policy{Name: "nothing"}),
			"shorter than the tick":        exempt.SetPolicy(Policy{ReadTimeout: 1}),
			"active Heartbeat (every 1s)":  r.SetPolicy(Policy{Heartbeat: Heartbeat{Interval: time.Second, Timeout: time.Second}}),
			"active Heartbeat (every 10s)": exempt.SetPolicy(beats),
		} {
			if got == nil || !strings.Contains(got.Error(), want) {
				r.Errorf("got %v, want %s", got, want)
			}
		}
		if r.Policy() != policy || exempt.Policy() != (Policy{}) {
			r.Errorf("changed: %+v, %+v", r.Policy(), exempt.Policy())
		}
		r.dies(p, time.Now(), time.Second, ReasonIdle)
		err := login.SetPolicy(Policy{PhaseTimeout: 3 * time.Second})
		if got, want := login.Policy(), (Policy{Name: "login", PhaseTimeout: 3 * time.Second}); err != nil || got != want {
			r.Errorf("the phase has %+v, want %+v: %v", got, want, err)
		}
	})
}
