//go:build proof

package main

import (
	"testing"
	"time"
)

func TestPlanIsDrawnFromTheSeed(t *testing.T) {
	a, b := newPlanner(testConfig()), newPlanner(testConfig())
	other := testConfig()
	other.seed++
	c := newPlanner(other)
	differs := false
	for range 1000 {
		life := a.next()
		if again := b.next(); again != life {
			t.Fatalf("drew %+v and %+v from the same seed", life, again)
		}
		differs = differs || c.next() != life
	}
	if !differs {
		t.Error("another seed gave the same lives")
	}
}

func TestPlanKeepsToItsLimits(t *testing.T) {
	cfg := testConfig()
	var kinds [numKinds]int
	p := newPlanner(cfg)
	const n = 10_000
	for range n {
		l := p.next()
		kinds[l.kind]++
		if l.kind == active && l.quit != never {
			t.Fatal("an active connection falls silent")
		}
		if l.quit != never && time.Duration(l.quit)*time.Millisecond+cfg.longest() > cfg.duration {
			t.Fatalf("a %v connection quits at %v ms, and is not due before the end at %v", l.kind, l.quit, cfg.duration)
		}
		// Its last activity may be a sweep before it quits, and it may be
		// found to leave a sweep late.
		silence := cfg.sweepTime() + cfg.Idle*time.Duration(l.stay)/256 + cfg.sweepTime()
		if l.kind == leaver && silence >= cfg.Idle {
			t.Fatalf("a connection leaves after up to %v, which is too late for the limit of %v", silence, cfg.Idle)
		}
	}
	for k, got := range kinds {
		if got == 0 && kind(k) != worker {
			t.Errorf("no connection is %v", kind(k))
		}
	}
	if share := float64(kinds[active]) / n; share < 0.45 || share > 0.55 {
		t.Errorf("%.2f of the connections are active, want about 0.5", share)
	}
}
