package idle

import (
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A readout is what a Read of a test returns.
type readout struct{ atomic.Uint64 }

func (r *readout) set(v float64) { r.Store(math.Float64bits(v)) }

func (r *readout) read() (float64, error) { return math.Float64frombits(r.Load()), nil }

func readingOf(v float64) *readout {
	r := &readout{}
	r.set(v)
	return r
}

func (r *rig) setPressure(p Pressure) {
	r.Helper()
	if err := r.SetPressure(p); err != nil {
		r.Fatal(err)
	}
}

// isAt checks that the pressure is p.
func (r *rig) isAt(p float64) {
	r.Helper()
	if got := r.Pressure(); math.Abs(got-p) > 1e-9 {
		r.Errorf("the pressure is %v, want %v", got, p)
	}
}

// idles checks which IdleTimeout is in force in a phase.
func (r *rig) idles(phase *Phase, limit time.Duration) {
	r.Helper()
	if got := phase.InForce().IdleTimeout; got != limit {
		r.Errorf("%q has an IdleTimeout of %v, want %v", phase.Policy().Name, got, limit)
	}
}

var (
	slow = Policy{Name: "slow", IdleTimeout: 600 * time.Second, WriteTimeout: time.Minute}
	fast = Policy{IdleTimeout: 2 * time.Second}
)

const atSevenTenths = 181400 * time.Millisecond // between slow and fast

// TestPressureOnOpenConns is Envoy's example, for connections that are open.
func TestPressureOnOpenConns(t *testing.T) {
	onBoth(t, slow, nil, func(r *rig) {
		memory := readingOf(0.5)
		r.setPressure(Pressure{Read: memory.read, From: 0.85, Upto: 0.95, Policy: fast})
		r.isAt(0)
		silent := r.peer()
		r.lives(silent, 300*time.Second)
		talks, last := r.peer(), time.Now()
		r.lives(talks, 500*time.Millisecond) // the next reading is half a second away
		since := time.Now()
		memory.set(0.92)
		r.lives(silent, 499*time.Millisecond)
		r.dies(silent, since.Add(500*time.Millisecond), 0, ReasonIdle)
		r.isAt(0.7)
		if err := silent.expired[0]; err.Limit != atSevenTenths || err.Phase != "slow" {
			r.Errorf("the error says %v", err)
		}
		r.dies(talks, last, atSevenTenths, ReasonIdle)
		late, full := r.peer(), time.Now()
		memory.set(0.99)
		r.dies(late, full, 2*time.Second, ReasonIdle)
		r.isAt(1)
	})
}

// TestPressureFalls has an open connection follow back to the policy at rest.
func TestPressureFalls(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Minute}, nil, func(r *rig) {
		memory := readingOf(1)
		r.setPressure(Pressure{Read: memory.read, Policy: Policy{IdleTimeout: 30 * time.Second}, Every: 500 * time.Millisecond})
		p, since := r.peer(), time.Now()
		r.wait(100 * time.Millisecond)
		memory.set(0.4)
		r.wait(4500 * time.Millisecond)
		r.isAt(1) // for ten readings
		r.wait(500 * time.Millisecond)
		r.isAt(0.4)
		r.idles(r.phase, 48*time.Second)
		memory.set(0)
		r.wait(5 * time.Second)
		r.isAt(0)
		if r.phase.InForce() != r.Policy() {
			r.Errorf("at rest: %+v", r.phase.InForce())
		}
		r.dies(p, since, time.Minute, ReasonIdle)
	})
}

// TestPolicyAtRest has it replaced while there is pressure.
func TestPolicyAtRest(t *testing.T) {
	onBoth(t, slow, nil, func(r *rig) {
		exempt := r.phaseOf(Policy{Name: "exempt"})
		r.setPressure(Pressure{Read: readingOf(0.5).read, Policy: fast, Phases: map[*Phase]Policy{exempt: fast}})
		r.idles(r.phase, 301*time.Second)
		r.idles(exempt, 0) // off at rest
		if r.Policy() != slow || exempt.Policy() != (Policy{Name: "exempt"}) {
			r.Errorf("at rest: %+v, %+v", r.Policy(), exempt.Policy())
		}
		p, q, since := r.peer(), r.peer(), time.Now()
		r.do(func() { q.Enter(exempt) })
		longer := Policy{Name: "slow", IdleTimeout: 100 * time.Second, PhaseTimeout: time.Hour}
		r.setPolicy(longer)
		if err := r.Replace(exempt, longer); err != nil {
			r.Fatal(err)
		}
		if want := (Policy{Name: "slow", IdleTimeout: 51 * time.Second, PhaseTimeout: time.Hour}); r.phase.InForce() != want || exempt.InForce() != want {
			r.Errorf("in force: %+v, %+v; want %+v", r.phase.InForce(), exempt.InForce(), want)
		}
		r.wait(1500 * time.Millisecond) // another reading
		r.idles(r.phase, 51*time.Second)
		r.dies(p, since, 51*time.Second, ReasonIdle)
		r.dies(q, since, 51*time.Second, ReasonIdle)

		r.setPolicy(Policy{IdleTimeout: time.Second}) // tighter than under full pressure
		r.idles(r.phase, time.Second)
		r.setPressure(Pressure{})
		r.isAt(0)
		r.idles(exempt, 100*time.Second)
		if r.phase.InForce() != r.Policy() || exempt.InForce() != longer || exempt.Policy() != longer {
			r.Errorf("at rest: %+v, %+v", r.phase.InForce(), exempt.InForce())
		}
	})
}

// TestReplaceWhatFullCannotScale has a policy refused that is valid at rest, but not
// under full pressure.
func TestReplaceWhatFullCannotScale(t *testing.T) {
	onDriver(t, slow, nil, func(r *rig) {
		r.setPressure(Pressure{Read: readingOf(0.5).read, Policy: Policy{ReadTotal: time.Second}})
		before := r.phase.InForce()
		err := r.SetPolicy(Policy{MinReadRate: Rate{10, time.Second}})
		if err == nil || !strings.Contains(err.Error(), `phase "slow": under full pressure, ReadTotal is 1s and MinReadRate is 10`) {
			r.Errorf("got %v", err)
		}
		if r.Policy() != slow || r.phase.InForce() != before {
			r.Error("it was replaced all the same")
		}
	})
}

// TestPressureReplaced has another Pressure, of another phase, replace one.
func TestPressureReplaced(t *testing.T) {
	onDriver(t, slow, nil, func(r *rig) {
		other := r.phaseOf(slow)
		first, second := readingOf(1), readingOf(0.5)
		r.setPressure(Pressure{Read: first.read, Policy: fast, Phases: map[*Phase]Policy{other: fast}})
		r.idles(r.phase, 2*time.Second)
		r.idles(other, 2*time.Second)
		r.setPressure(Pressure{Read: second.read, Phases: map[*Phase]Policy{other: {IdleTimeout: 500 * time.Second}}})
		r.isAt(0.5)
		r.idles(r.phase, 600*time.Second)
		r.idles(other, 550*time.Second)
		r.wait(time.Minute)
		r.isAt(0.5)
		if n := r.calls.running.count(); n != 1 {
			r.Errorf("%d goroutines read, want 1", n)
		}
		r.setPressure(Pressure{})
		r.wait(0)
		if n := r.calls.running.count(); n != 0 {
			r.Errorf("%d goroutines are left", n)
		}
		r.idles(other, 600*time.Second)
		r.setPressure(Pressure{})
	})
}

// TestSteadyPressureIsFree counts the walks that readings cause.
func TestSteadyPressureIsFree(t *testing.T) {
	onDriver(t, slow, nil, func(r *rig) {
		memory := readingOf(0.5)
		r.setPressure(Pressure{Read: memory.read, Policy: fast})
		r.wait(time.Second / 2)
		r.peer()
		version, passes := r.phase.latest(), r.Stats().Passes
		for i := range 60 {
			memory.set(0.5 + float64(i%5)/100)
			r.wait(time.Second)
		}
		if r.phase.latest() != version || r.Stats().Passes != passes {
			r.Errorf("%d passes", r.Stats().Passes-passes)
		}
		memory.set(0.6)
		r.wait(time.Second)
		if r.phase.latest() == version || r.Stats().Passes == passes {
			r.Error("the limits do not follow")
		}
	})
}
