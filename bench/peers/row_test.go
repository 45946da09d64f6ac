package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

func contestOf(name string, values ...float64) *contest {
	ct := &contest{work: resetHot(), kind: contender.Kind{Name: name}, conns: 1}
	for _, v := range values {
		ct.outcomes = append(ct.outcomes, newOutcome("reset-hot", v))
	}
	return ct
}

// testContests are of one measure: two that differ for sure, two that may not,
// one that is fast but early, one that was skipped and one that failed.
func testContests() []*contest {
	slow := contestOf("slow", 20, 21, 22, 23, 24, 25)
	near := contestOf("near", 10, 11, 12, 13, 14, 16)
	best := contestOf("best", 10, 11, 12, 13, 14, 15)
	early := contestOf("early", 1, 1, 1, 1, 1, 1)
	early.outcomes[3].Early, early.outcomes[4].Early, early.outcomes[5].Lost = 7, 5, 2
	skipped := contestOf("skipped")
	skipped.skipped = "cannot"
	failed := contestOf("failed", 3)
	failed.failed = errors.New("still running after 2m0s")
	return []*contest{slow, skipped, early, near, failed, best}
}

func TestRows(t *testing.T) {
	all := rows(testContests())
	var order []string
	byName := make(map[string]*row)
	for _, r := range all {
		order = append(order, r.Contender)
		byName[r.Contender] = r
	}
	if got := strings.Join(order, " "); got != "near best slow early skipped failed" && got != "best near slow early skipped failed" {
		t.Errorf("the order is %s", got)
	}
	slow := byName["slow"]
	if *slow.Median != 22.5 || *slow.Min != 20 || *slow.Max != 25 || *slow.RatioToBest != 22.5/12.5 {
		t.Errorf("slow: %v (%v to %v), ratio %v", *slow.Median, *slow.Min, *slow.Max, *slow.RatioToBest)
	}
	if !slow.Confident || byName["near"].Confident || byName["best"].Confident {
		t.Error("slow is slower for sure, near is not")
	}
	if e := byName["early"]; e.Early != 7 || e.Lost != 2 || e.RatioToBest != nil || e.best {
		t.Errorf("early: %+v", e)
	}
	if s := byName["skipped"]; s.Skipped != "cannot" || s.Median != nil {
		t.Errorf("skipped: %+v", s)
	}
	if f := byName["failed"]; f.Skipped != "failed: still running after 2m0s" || f.Median != nil {
		t.Errorf("failed: %+v", f)
	}
}

func TestFewTurnsGiveNoConfidence(t *testing.T) {
	all := rows([]*contest{contestOf("a", 1, 1.1), contestOf("b", 9, 9.1)})
	if r := all[1]; r.Confident || r.P != nil || r.confidence() != "n=2" {
		t.Errorf("confident %v, %s", r.Confident, r.confidence())
	}
}

// TestTinyLateness pins that noise below a tenth of a millisecond makes nobody
// many times better.
func TestTinyLateness(t *testing.T) {
	m := measure{"stale-spread-late-p50", "", "ms"}
	var group []*row
	for _, v := range []float64{0.001, 0.05, 0.4} {
		ct := contestOf("x")
		ct.outcomes = []outcome{newOutcome(m.name, v)}
		group = append(group, newRow(ct, m))
	}
	rank(group)
	if *group[1].RatioToBest != 1 || *group[2].RatioToBest != 4 {
		t.Errorf("ratios %v and %v, want 1 and 4", *group[1].RatioToBest, *group[2].RatioToBest)
	}
}
