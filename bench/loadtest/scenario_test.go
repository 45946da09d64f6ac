package main

import (
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	regimes := []regime{{0, 0, 100}, {50, 52, 10}, {80, 82, 100}}
	const pass, allowance = 1, 5
	for _, c := range []struct{ last, from, due int64 }{
		{0, 50, 52},   // overdue by the shorter limit
		{45, 55, 55},  // due by it later
		{64, 74, 74},  // before the longer one, by just the allowance
		{66, 76, 166}, // so late that it need not be followed
		{73, 83, 173}, // while the longer one comes into force, and a pass may be under way
		{74, 174, 174},
	} {
		if from, due := window(regimes, c.last, pass, allowance); from != c.from || due != c.due {
			t.Errorf("last active at %d: from %d, due at %d; want %d, %d", c.last, from, due, c.from, c.due)
		}
	}
}

func TestInversion(t *testing.T) {
	for _, c := range []struct {
		name  string
		turns []turn
		want  time.Duration
	}{
		{"none", []turn{{10, 1, true, false}, {11, 1, true, false}, {12, 5, true, false}}, 0},
		{"a later one was more idle", []turn{{10, 4, true, false}, {11, 5, true, false}, {15, 1, true, false}}, 4},
		{"but came soon", []turn{{10, 4, true, false}, {11, 5, true, false}, {14, 1, true, false}}, 3},
		{"one that stayed was", []turn{{10, 4, true, false}, {noTime, 1, false, false}}, 3},
		{"one that has left was", []turn{{10, 4, true, false}, {14, 2, false, false}}, 2},
		{"it was active after its turn", []turn{{10, 9, true, true}, {14, 2, true, false}}, 0},
		{"nobody had a turn", []turn{{10, 9, false, false}, {14, 2, false, false}}, 0},
	} {
		if got := inversion(c.turns, 3); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestRateError(t *testing.T) {
	var told tally
	for second, n := range []int{40, 90, 100, 110, 100, 3} {
		for range n {
			told.add(int64(second) * int64(time.Second))
		}
	}
	if got := told.rateError(); got < 9.999 || got > 10.001 {
		t.Errorf("got %v, want 10", got)
	}
}

func TestWorstRank(t *testing.T) {
	turns := []turn{{10, 1, true, false}, {11, 4, true, false}, {12, 2, false, false}, {noTime, 3, false, false}, {noTime, 5, false, false}}
	if got := worstRank(turns, 1); got != 2 {
		t.Errorf("%d were more idle than the second, want 2", got)
	}
	if got := worstRank(turns, 2); got != 2 {
		t.Errorf("in buckets of two: %d, want 2", got)
	}
	if got := worstRank(turns, 10); got != 0 {
		t.Errorf("all in one bucket: %d", got)
	}
}
