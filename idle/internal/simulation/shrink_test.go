package simulation

import (
	"slices"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// shrink returns a part of a trace that fails as well, and of which no single
// event can be left out: Zeller's ddmin. What is left keeps its time, so that
// leaving out an event is silence instead. After many tries it gives up, and returns what
// it has.
func shrink(trace []happening, fails func([]happening) bool) []happening {
	trace = truncate(trace, fails)
	tries := 0
	for size := (len(trace) + 1) / 2; ; size = (size + 1) / 2 {
		for again := true; again; {
			again = false
			for from := 0; from < len(trace); {
				if tries++; tries > shrinkTries {
					return trace
				}
				some := slices.Delete(slices.Clone(trace), from, min(from+size, len(trace)))
				if len(some) > 0 && fails(some) {
					trace, again = some, true
				} else {
					from += size
				}
			}
		}
		if size <= 1 {
			return trace
		}
	}
}

const shrinkTries = 3000

// truncate finds about the shortest beginning that fails, by halving.
func truncate(trace []happening, fails func([]happening) bool) []happening {
	passes := 0
	for len(trace)-passes > 1 {
		if half := (len(trace) + passes) / 2; fails(trace[:half]) {
			trace = trace[:half]
		} else {
			passes = half
		}
	}
	return trace
}

// TestShrinkDeliberateFaults tells the ledger something wrong, which is as
// good as a tracker that does something wrong, and looks whether the simulation
// finds out, and how short the trace gets.
func TestShrinkDeliberateFaults(t *testing.T) {
	if raceEnabled && testing.Short() {
		t.Skip("it is about the simulation, which TestSimulation runs as well")
	}
	for name, lie := range map[string]func(*idle.Policy){
		"idle limit is longer":      func(p *idle.Policy) { stretch(&p.IdleTimeout) },
		"idle limit is shorter":     func(p *idle.Policy) { p.IdleTimeout = p.IdleTimeout * 3 / 4 },
		"read limit is longer":      func(p *idle.Policy) { stretch(&p.ReadTimeout) },
		"write limit is longer":     func(p *idle.Policy) { stretch(&p.WriteTimeout) },
		"phase limit is longer":     func(p *idle.Policy) { stretch(&p.PhaseTimeout) },
		"phase limit is shorter":    func(p *idle.Policy) { p.PhaseTimeout = p.PhaseTimeout * 3 / 4 },
		"no phase limit":            func(p *idle.Policy) { p.PhaseTimeout = 0 },
		"heartbeats are less often": func(p *idle.Policy) { stretch(&p.Heartbeat.Interval) },
		"one miss more is allowed":  func(p *idle.Policy) { p.Heartbeat.Misses = max(p.Heartbeat.Misses, 1) + 1 },
		"rate is longer":            func(p *idle.Policy) { stretch(&p.MinReadRate.Grace); p.MinReadRate.Grace *= 3 },
		"age is longer":             func(p *idle.Policy) { stretch(&p.MaxAge) },
		"another name":              func(p *idle.Policy) { p.Name += "!" },
	} {
		t.Run(name, func(t *testing.T) {
			wrong := func(p idle.Policy) idle.Policy { lie(&p); return p }
			var lengths []int
			for seed := range int64(64) {
				if seed%8 == 0 {
					continue // the jitter depends on how many there were in the slot before
				}
				trace := traceOf(seed, 1000)
				faults, _ := playTrace(t, seed, trace, wrong)
				if len(faults) == 0 {
					continue // no policy here, or nobody who passed it
				}
				tries := 0
				short := shrink(trace, func(some []happening) bool {
					tries++
					again, _ := playTrace(t, seed, some, wrong)
					return len(again) > 0 && again[0].kind == faults[0].kind
				})
				t.Logf("seed %d, %d tries: %v: %.200s", seed, tries, short, faults[0].text)
				if len(short) <= 6 {
					return
				}
				// A limit that is passed by a millisecond may depend on what happens to
				// others at the same time. Not so with most seeds.
				if lengths = append(lengths, len(short)); len(lengths) == 4 {
					t.Fatalf("of %d seeds, none leaves fewer than %d events", len(lengths), slices.Min(lengths))
				}
			}
			t.Error("nothing wrong was found")
		})
	}
}

func stretch(d *time.Duration) { *d += *d / 4 }

// TestShrinkLeavesWhatIsNeeded has a fault that needs three events of many, in
// their order.
func TestShrinkLeavesWhatIsNeeded(t *testing.T) {
	trace := traceOf(1, 1000)
	tries := 0
	short := shrink(trace, func(some []happening) bool {
		tries++
		next, want := 0, []int{17, 512, 903}
		for _, h := range some {
			if next < len(want) && h.index == want[next] {
				next++
			}
		}
		return next == len(want)
	})
	if len(short) != 3 || tries > 200 {
		t.Errorf("after %d tries: %v", tries, short)
	}
}
