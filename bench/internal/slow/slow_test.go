package slow_test

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/field"
	"github.com/idlewheel/idlewheel/bench/internal/slow"
)

// giveUp is longer than the limits of the servers in these tests, and much shorter than those
// that a server has by default.
const giveUp = 12 * time.Second

// TestCases tries each case on a server that ends slow clients and on one that does not. A case
// that both ended would be no case.
func TestCases(t *testing.T) {
	guarded, err := field.Guarded(2 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer guarded.Stop()
	open, err := field.Guarded(0)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Stop()
	held := make(chan []slow.Result)
	go func() { held <- run(t, open.Targets) }()
	for _, r := range run(t, guarded.Targets) {
		t.Logf("%-28s %s %s %.1f s %s", r.Name, r.Outcome, r.By, r.After, r.Why)
		if !r.Good() || r.Outcome == slow.Refused {
			t.Errorf("%s: the server has limits of 2 s, and the case is %s after %.1f s: %s", r.Name, r.Outcome, r.After, r.Why)
		}
	}
	// A server without limits ends these all the same.
	always := []string{"tcp-half-close", "tls-half-close", "h1-half-close", "h1-blank-lines", "h1-idle-blank-lines", "h1-connect", "h2-goaway", "h2-no-preface", "h2-preface-stops", "h2-settings-unacknowledged"}
	for _, r := range <-held {
		if r.Control && r.Outcome != slow.Passed {
			t.Errorf("%s: a server without limits has %s the control: %s", r.Name, r.Outcome, r.Why)
		}
		if !r.Control && r.Outcome != slow.Held && !slices.Contains(always, r.Name) {
			t.Errorf("%s: a server without limits has %s the case after %.1f s by %s: %s", r.Name, r.Outcome, r.After, r.By, r.Why)
		}
	}
}

// run tries each case on the first target that does not lack what it needs.
func run(t *testing.T, targets []slow.Target) (all []slow.Result) {
	for _, target := range targets {
		target.GiveUp = giveUp
		for _, r := range slow.Run(t.Context(), target, slow.Cases()) {
			if r.Outcome != slow.Skipped {
				all = append(all, r)
			}
		}
	}
	return all
}

// TestNames: each case has a name of its own, and says what it does and what ought to end it.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	cases, controls := 0, 0
	for _, c := range slow.Cases() {
		if seen[c.Name] || c.Does == "" || c.Limit == "" || c.Protocol == "" {
			t.Errorf("%+v: twice, or incomplete", c)
		}
		seen[c.Name] = true
		if c.Control {
			controls++
		} else {
			cases++
		}
	}
	if cases < 40 || controls < 5 {
		t.Errorf("%d cases and %d controls", cases, controls)
	}
}

// TestField: each server of the field starts, or says why not.
func TestField(t *testing.T) {
	for _, s := range field.Servers() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			target, stop, err := s.Start(io.Discard)
			if err != nil {
				t.Skip(err)
			}
			defer stop()
			target.GiveUp = 5 * time.Second
			for _, r := range slow.Run(t.Context(), target, slow.Cases()) {
				if r.Name == "h1-slow-header" && r.Outcome != slow.Passed && r.Outcome != slow.Skipped {
					t.Errorf("it does not serve: %+v", r)
				}
			}
		})
	}
}
