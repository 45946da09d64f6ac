package idle

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// BenchmarkTouchInAHerd touches random ones of 10,000 connections, 64 at a time, while a
// million others time out at once, and while nothing else happens. It reports the 99th
// percentile of an activity in both, and how many times as long it is in the herd.
func BenchmarkTouchInAHerd(b *testing.B) {
	if testing.Short() {
		b.Skip("seconds each")
	}
	const herd, active, slab = 1_000_000, 10_000, 64
	var calm, busy []time.Duration
	for b.Loop() {
		t, err := New(Policy{IdleTimeout: time.Hour}, &Options{Tick: defaultTick})
		if err != nil {
			b.Fatal(err)
		}
		short, err := t.Phase(Policy{IdleTimeout: 2 * time.Second})
		if err != nil {
			b.Fatal(err)
		}
		conns, hooks := make([]idleOwner, active+herd), hooksOf(&idleOwner{})
		for i := range conns {
			if err := t.Track(&conns[i].Conn, &conns[i], hooks); err != nil {
				b.Fatal(err)
			}
		}
		for i := range conns[active:] {
			conns[active+i].Enter(short)
		}
		entered := time.Now()
		touch := func(until func() bool) (took []time.Duration) {
			for !until() {
				for range 100 {
					begun := time.Now()
					for range slab {
						conns[rand.IntN(active)].Touch()
					}
					took = append(took, time.Since(begun)/slab)
				}
			}
			return took
		}
		calm = append(calm, touch(func() bool { return time.Since(entered) > 1500*time.Millisecond })...)
		touch(func() bool { return t.live() < active+herd })
		busy = append(busy, touch(func() bool { return t.live() == active })...)
		t.Close()
	}
	p99 := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)*99/100])
	}
	b.ReportMetric(p99(calm), "calm-p99-ns")
	b.ReportMetric(p99(busy), "herd-p99-ns")
	b.ReportMetric(p99(busy)/p99(calm), "herd/calm")
}
