package pressure

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestScaleAsEnvoy is the example of Envoy's documentation of its overload manager,
// "Reducing timeouts".
func TestScaleAsEnvoy(t *testing.T) {
	rest, full := idle.Policy{IdleTimeout: 600 * time.Second}, idle.Policy{IdleTimeout: 2 * time.Second}
	for reading, want := range map[float64]time.Duration{
		0: 600 * time.Second, 0.85: 600 * time.Second, 0.92: 181400 * time.Millisecond, 0.95: 2 * time.Second, 1: 2 * time.Second,
	} {
		if got := Scale(rest, full, between(0.85, 0.95, reading)); got != (idle.Policy{IdleTimeout: want}) {
			t.Errorf("at %v: %+v, want %v", reading, got, want)
		}
	}
}

// everything sets all fields that may be set together.
var everything = idle.Policy{
	Name: "rest", IdleTimeout: 100 * time.Second, ReadTimeout: 50 * time.Second, WriteTimeout: 40 * time.Second,
	PhaseTimeout: 30 * time.Second, MaxAge: time.Hour, MaxAgeJitter: 10 * time.Minute, MaxAgeGrace: time.Minute,
	Heartbeat:    idle.Heartbeat{Interval: 20 * time.Second, Timeout: 10 * time.Second, Misses: 4},
	MinReadRate:  rate(100, 20*time.Second),
	MinWriteRate: rate(1000, 10*time.Second),
}

func rate(bytes int, grace time.Duration) idle.Rate {
	return idle.Rate{BytesPerSecond: bytes, Grace: grace}
}

func beat(interval, timeout time.Duration, misses int, passive bool) idle.Heartbeat {
	return idle.Heartbeat{Interval: interval, Timeout: timeout, Misses: misses, Passive: passive}
}

func TestScale(t *testing.T) {
	const s = time.Second
	for _, test := range []struct {
		name                   string
		rest, full             idle.Policy
		tenth, half, most, all idle.Policy
	}{
		{"nothing is set", everything, idle.Policy{Name: "full"}, everything, everything, everything, everything},
		{
			"a limit",
			idle.Policy{Name: "rest", IdleTimeout: 100 * s, ReadTimeout: s}, idle.Policy{Name: "full", IdleTimeout: 10 * s},
			idle.Policy{Name: "rest", IdleTimeout: 91 * s, ReadTimeout: s}, idle.Policy{Name: "rest", IdleTimeout: 55 * s, ReadTimeout: s},
			idle.Policy{Name: "rest", IdleTimeout: 10900 * time.Millisecond, ReadTimeout: s}, idle.Policy{Name: "rest", IdleTimeout: 10 * s, ReadTimeout: s},
		},
		{
			"off at rest",
			idle.Policy{IdleTimeout: s}, idle.Policy{ReadTimeout: s, MinWriteRate: rate(1, s), MaxAge: 9 * s, MaxAgeJitter: s, MaxAgeGrace: 2 * s},
			idle.Policy{IdleTimeout: s}, idle.Policy{IdleTimeout: s}, idle.Policy{IdleTimeout: s},
			idle.Policy{IdleTimeout: s, ReadTimeout: s, MinWriteRate: rate(1, s), MaxAge: 9 * s, MaxAgeJitter: s, MaxAgeGrace: 2 * s},
		},
		{
			"tighter at rest",
			idle.Policy{IdleTimeout: s, MaxAge: s, Heartbeat: beat(s, s, 1, false), MinReadRate: rate(10, s)},
			idle.Policy{IdleTimeout: 2 * s, MaxAge: 2 * s, MaxAgeGrace: s, Heartbeat: beat(2*s, 2*s, 2, false), MinReadRate: rate(5, 2*s)},
			idle.Policy{IdleTimeout: s, MaxAge: s, Heartbeat: beat(s, s, 1, false), MinReadRate: rate(10, s)},
			idle.Policy{IdleTimeout: s, MaxAge: s, Heartbeat: beat(s, s, 1, false), MinReadRate: rate(10, s)},
			idle.Policy{IdleTimeout: s, MaxAge: s, Heartbeat: beat(s, s, 1, false), MinReadRate: rate(10, s)},
			idle.Policy{IdleTimeout: s, MaxAge: s, Heartbeat: beat(s, s, 1, false), MinReadRate: rate(10, s)},
		},
		{
			"an age", idle.Policy{MaxAge: 100 * s, MaxAgeJitter: 20 * s, MaxAgeGrace: 10 * s}, idle.Policy{MaxAge: 50 * s, MaxAgeJitter: 10 * s},
			idle.Policy{MaxAge: 95 * s, MaxAgeJitter: 19 * s, MaxAgeGrace: 10 * s}, idle.Policy{MaxAge: 75 * s, MaxAgeJitter: 15 * s, MaxAgeGrace: 10 * s},
			idle.Policy{MaxAge: 50500 * time.Millisecond, MaxAgeJitter: 10100 * time.Millisecond, MaxAgeGrace: 10 * s}, idle.Policy{MaxAge: 50 * s, MaxAgeJitter: 10 * s, MaxAgeGrace: 10 * s},
		},
		{
			"a heartbeat",
			idle.Policy{Heartbeat: beat(10*s, 5*s, 5, true)}, idle.Policy{Heartbeat: idle.Heartbeat{Timeout: s, Misses: 1}},
			idle.Policy{Heartbeat: beat(10*s, 4600*time.Millisecond, 5, true)}, idle.Policy{Heartbeat: beat(10*s, 3*s, 3, true)},
			idle.Policy{Heartbeat: beat(10*s, 1040*time.Millisecond, 2, true)}, idle.Policy{Heartbeat: beat(10*s, s, 1, true)},
		},
		{
			"no heartbeat at rest", idle.Policy{IdleTimeout: s}, idle.Policy{Heartbeat: beat(s, s, 1, false)},
			idle.Policy{IdleTimeout: s}, idle.Policy{IdleTimeout: s}, idle.Policy{IdleTimeout: s}, idle.Policy{IdleTimeout: s},
		},
		{
			"a rate", idle.Policy{MinReadRate: rate(100, 10*s)}, idle.Policy{MinReadRate: idle.Rate{BytesPerSecond: 1001}},
			idle.Policy{MinReadRate: rate(190, 10*s)}, idle.Policy{MinReadRate: rate(550, 10*s)}, idle.Policy{MinReadRate: rate(991, 10*s)}, idle.Policy{MinReadRate: rate(1001, 10*s)},
		},
		{
			"rounded to milliseconds, but not beyond full",
			idle.Policy{IdleTimeout: time.Millisecond + 5}, idle.Policy{IdleTimeout: time.Millisecond + 3},
			idle.Policy{IdleTimeout: time.Millisecond + 3}, idle.Policy{IdleTimeout: time.Millisecond + 3}, idle.Policy{IdleTimeout: time.Millisecond + 3}, idle.Policy{IdleTimeout: time.Millisecond + 3},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for p, want := range map[float64]idle.Policy{
				-1: test.rest, 0: test.rest, 0.1: test.tenth, 0.5: test.half, 0.99: test.most, 1: test.all, 2: test.all,
				math.Inf(1): test.all, math.Inf(-1): test.rest,
			} {
				if got := Scale(test.rest, test.full, p); got != want {
					t.Errorf("at %v:\ngot  %+v\nwant %+v", p, got, want)
				}
			}
			if got := Scale(test.rest, test.full, math.NaN()); got != test.rest {
				t.Errorf("NaN: got %+v", got)
			}
		})
	}
}

// looseness returns how much each field of p allows: more is longer or slower.
func looseness(p idle.Policy) map[string]float64 {
	loose := map[string]float64{}
	off := func(name string, d time.Duration, isOff bool) {
		if loose[name] = float64(d); isOff {
			loose[name] = math.Inf(1)
		}
	}
	for name, d := range map[string]time.Duration{
		"IdleTimeout": p.IdleTimeout, "ReadTimeout": p.ReadTimeout, "ReadTotal": p.ReadTotal, "WriteTimeout": p.WriteTimeout,
		"PhaseTimeout": p.PhaseTimeout, "MaxAge": p.MaxAge, "Heartbeat.Interval": p.Heartbeat.Interval,
		"MinReadRate.Grace": p.MinReadRate.Grace, "MinWriteRate.Grace": p.MinWriteRate.Grace,
	} {
		off(name, d, d == 0)
	}
	off("MaxAgeJitter", p.MaxAgeJitter, p.MaxAge == 0)
	off("MaxAgeGrace", p.MaxAgeGrace, p.MaxAge == 0)
	off("Heartbeat.Timeout", p.Heartbeat.Timeout, p.Heartbeat.Interval == 0)
	off("Heartbeat.Misses", time.Duration(misses(p.Heartbeat)), p.Heartbeat.Interval == 0)
	loose["MinReadRate"] = -float64(p.MinReadRate.BytesPerSecond)
	loose["MinWriteRate"] = -float64(p.MinWriteRate.BytesPerSecond)
	return loose
}

// notLooser checks that b allows no more than a in any field.
func notLooser(a, b idle.Policy) error {
	was := looseness(a)
	for name, is := range looseness(b) {
		if is > was[name] {
			return fmt.Errorf("%s went from %v to %v", name, was[name], is)
		}
	}
	return nil
}

// mended returns p with fewer contradictions.
func mended(p idle.Policy, tick time.Duration) idle.Policy {
	for _, d := range []*time.Duration{
		&p.IdleTimeout, &p.ReadTimeout, &p.WriteTimeout, &p.ReadTotal, &p.PhaseTimeout, &p.MaxAge, &p.MaxAgeJitter, &p.MaxAgeGrace,
		&p.Heartbeat.Interval, &p.Heartbeat.Timeout, &p.MinReadRate.Grace, &p.MinWriteRate.Grace,
	} {
		if *d > 0 {
			*d = tick + *d%(3000*tick)
		}
	}
	if p.MaxAge == 0 {
		p.MaxAgeJitter, p.MaxAgeGrace = 0, 0
	}
	if h := &p.Heartbeat; h.Interval == 0 || h.Timeout == 0 && !h.Passive {
		*h = idle.Heartbeat{}
	}
	for _, r := range []*idle.Rate{&p.MinReadRate, &p.MinWriteRate} {
		if r.Grace == 0 || r.BytesPerSecond == 0 {
			*r = idle.Rate{}
		}
	}
	if p.MinReadRate.Grace > 0 {
		p.ReadTotal = 0
	}
	return p
}

// TestScaleOfAny has pairs of any policies, and checks that what is between them is
// valid, never looser than at rest nor tighter than at full pressure, and ever tighter.
func TestScaleOfAny(t *testing.T) {
	const tick = 10 * time.Millisecond
	rng := rand.New(rand.NewPCG(1, 2))
	anyOne := func() idle.Policy {
		var p idle.Policy
		for _, d := range []*time.Duration{
			&p.IdleTimeout, &p.ReadTimeout, &p.WriteTimeout, &p.ReadTotal, &p.PhaseTimeout, &p.MaxAge, &p.MaxAgeJitter, &p.MaxAgeGrace,
			&p.Heartbeat.Interval, &p.Heartbeat.Timeout, &p.MinReadRate.Grace, &p.MinWriteRate.Grace,
		} {
			if rng.IntN(3) > 0 {
				*d = time.Duration(rng.Int64N(int64(math.Pow(10, float64(8+rng.IntN(9))))))
			}
		}
		p.Heartbeat.Misses, p.Heartbeat.Passive = rng.IntN(5), rng.IntN(2) == 0
		p.MinReadRate.BytesPerSecond, p.MinWriteRate.BytesPerSecond = rng.IntN(5), rng.IntN(1e6)
		return mended(p, tick)
	}
	tracker := newTracker(t, everything)
	valid := func(p idle.Policy) error {
		_, err := tracker.Phase(p)
		return err
	}
	tried := 0
	for range 5_000 {
		rest, full := anyOne(), anyOne()
		most := Scale(rest, full, 1)
		if valid(rest) != nil || valid(most) != nil {
			continue
		}
		tried++
		was, since := rest, 0.0
		for _, p := range []float64{1e-9, rng.Float64() / 100, 0.3 * rng.Float64(), 0.3 + 0.3*rng.Float64(), 0.7 + 0.2*rng.Float64(), 1 - 1e-9, 1} {
			if p < since {
				continue
			}
			is := Scale(rest, full, p)
			if err := valid(is); err != nil {
				t.Fatalf("at %v: %v\nrest %+v\nfull %+v", p, err, rest, full)
			}
			for _, pair := range [][2]idle.Policy{{was, is}, {is, most}} {
				if err := notLooser(pair[0], pair[1]); err != nil {
					t.Fatalf("at %v, after %v: %v\nrest %+v\nfull %+v", p, since, err, rest, full)
				}
			}
			was, since = is, p
		}
	}
	if tried < 2000 {
		t.Errorf("only %d pairs tried", tried)
	}
}

// TestScaleKnowsAllFields fails if Policy has a field that Scale forgets.
func TestScaleKnowsAllFields(t *testing.T) {
	var rest, full idle.Policy
	as := map[string]bool{"Name": true, "NoInterrupt": true, "Handshake": true, "Passive": true, "CountsAsUse": true} // as at rest
	var fill func(rest, full reflect.Value)
	fill = func(rest, full reflect.Value) {
		for i := range rest.NumField() {
			switch r, f := rest.Field(i), full.Field(i); {
			case as[rest.Type().Field(i).Name]:
			case r.Kind() == reflect.Struct:
				fill(r, f)
			case rest.Type().Field(i).Name == "BytesPerSecond":
				r.SetInt(1)
				f.SetInt(2)
			default:
				r.SetInt(2e9)
				f.SetInt(1e9)
			}
		}
	}
	fill(reflect.ValueOf(&rest).Elem(), reflect.ValueOf(&full).Elem())
	if got := Scale(rest, full, 1); got != full {
		t.Errorf("got %+v\nwant %+v", got, full)
	}
}

func TestFullIsAsTight(t *testing.T) {
	full := everything
	full.Heartbeat.Misses, full.MinReadRate.BytesPerSecond = 4, 100
	if err := checkFull(&everything, &full); err != nil {
		t.Errorf("the same: %v", err)
	}
	if err := checkFull(&everything, &idle.Policy{}); err != nil {
		t.Errorf("as at rest: %v", err)
	}
	if err := checkFull(&idle.Policy{IdleTimeout: 1}, &idle.Policy{ReadTimeout: 2, MinReadRate: rate(1, 1)}); err != nil {
		t.Errorf("off at rest: %v", err)
	}
	for want, change := range map[string]func(full *idle.Policy){
		"IdleTimeout is 1m41s at full pressure, longer than the 1m40s at rest": func(full *idle.Policy) { full.IdleTimeout = 101 * time.Second },
		"MaxAgeGrace is 2m0s at full pressure, longer than the 1m0s at rest":   func(full *idle.Policy) { full.MaxAgeGrace = 2 * time.Minute },
		"Heartbeat.Timeout is 11s at full pressure, longer than the 10s":       func(full *idle.Policy) { full.Heartbeat.Timeout = 11 * time.Second },
		"Heartbeat.Misses is 5 at full pressure, more than the 4 at rest":      func(full *idle.Policy) { full.Heartbeat.Misses = 5 },
		"Heartbeat.Passive is true at full pressure, and false at rest":        func(full *idle.Policy) { full.Heartbeat.Passive = true },
		"MinReadRate.Grace is 21s at full pressure, longer than the 20s":       func(full *idle.Policy) { full.MinReadRate.Grace = 21 * time.Second },
		"MinReadRate.BytesPerSecond is 99 at full pressure, lower than the":    func(full *idle.Policy) { full.MinReadRate.BytesPerSecond = 99 },
		"MinWriteRate.BytesPerSecond is 999 at full pressure":                  func(full *idle.Policy) { full.MinWriteRate.BytesPerSecond = 999 },
	} {
		full := everything
		change(&full)
		if err := checkFull(&everything, &full); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	silent, beats := idle.Policy{MaxAge: 1}, idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Second, Passive: true}}
	if err := checkFull(&silent, &beats); err == nil || !strings.Contains(err.Error(), "Heartbeat.Interval is 1s at full pressure, and 0 at rest") {
		t.Errorf("a new heartbeat: %v", err)
	}
	if err := checkFull(&silent, &idle.Policy{MaxAgeJitter: 1}); err == nil || !strings.Contains(err.Error(), "MaxAgeJitter is 1ns at full pressure, longer than the 0s at rest") {
		t.Errorf("a new jitter: %v", err)
	}
}
