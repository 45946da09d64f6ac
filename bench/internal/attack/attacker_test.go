package attack

import (
	"context"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/stats"
)

func TestEarliest(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	dues := []due{{at(0), at(2000)}, {at(1900), at(4000)}, {at(3000), at(3500)}}
	for _, c := range []struct{ at, want int }{
		{1000, 2000}, // the first one
		{2050, 2000}, // what was done at 1900 may have come too late
		{2500, 4000}, // but not for this
		{3100, 3500}, // from 3000 on, and the earlier of the two
		{9000, 3500}, // the last one
	} {
		if got := earliest(dues, at(c.at)); !got.Equal(at(c.want)) {
			t.Errorf("cut at %d: was due at %v, want %d", c.at, got.Sub(start), c.want)
		}
	}
}

func TestDefend(t *testing.T) {
	start := time.Unix(1000, 0)
	end := start.Add(20 * time.Second)
	cutAt := func(d time.Duration) *attacker {
		a := newAttacker(context.Background(), kind{name: "some"}, Config{})
		a.limit(start, start.Add(2*time.Second))
		if d > 0 {
			a.cut(start.Add(d))
		}
		return a
	}
	got := defend([]*attacker{
		cutAt(1900 * time.Millisecond), cutAt(2010 * time.Millisecond), cutAt(6 * time.Second), cutAt(0),
	}, end, 3*time.Second)
	want := defence{Kind: "some", Attackers: 4, Cut: 3, Early: 1, Past: stats.Summary{Median: 10, Min: -100, Max: 4000}, Outlived: 2, Holding: 1}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestCut(t *testing.T) {
	a := newAttacker(context.Background(), kind{name: "some"}, Config{})
	a.cut(time.Unix(1000, 0))
	if a.rest(time.Hour) {
		t.Error("goes on though it was cut")
	}
	b := newAttacker(context.Background(), kind{name: "some"}, Config{})
	b.finish()
	b.cut(time.Unix(1000, 0))
	if !b.cutAt.IsZero() {
		t.Error("was cut after the end")
	}
}
