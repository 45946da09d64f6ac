package idle

import (
	"slices"
	"testing"
	"time"
)

// TestBudgetDefersFairly has many connections time out in one tick, each of
// which costs a millisecond. No pass takes them all; those that are deferred
// come in their turn, and are counted.
func TestBudgetDefersFairly(t *testing.T) {
	const n = 300
	var longest time.Duration
	opts := &Options{Shards: 1, OnPass: func(took time.Duration) { longest = max(longest, took) }}
	onBoth(t, Policy{IdleTimeout: time.Second}, opts, func(r *rig) {
		longest = 0
		var order []int
		for i := range n {
			s := &staller{stall: func() { order = append(order, i); time.Sleep(time.Millisecond) }}
			r.track(&s.Conn, s)
		}
		r.wait(10 * time.Second)
		if len(order) != n || !slices.IsSorted(order) {
			r.Errorf("timed out in the order %v", order)
		}
		if most := jobsPerLock * time.Millisecond; longest > most || r.Stats().Longest != longest {
			r.Errorf("a pass took %v, want at most %v; Stats.Longest is %v", longest, most, r.Stats().Longest)
		}
		// A connection timed out after so many others is late by as many ms.
		if d, most := int(r.Stats().Deferred), n-int(r.opts.Tick/time.Millisecond); d < most-20 || d > most {
			r.Errorf("%d deferred, want %d or a few less", d, most)
		}
	})
}

// TestAnnounceIsOneStep has the driver look at a loop's shard while the loop
// announces what is due: never would let it lie down for good.
func TestAnnounceIsOneStep(t *testing.T) {
	tr, err := New(Policy{IdleTimeout: time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	s, p := tr.shards[0], &peer{}
	if err := s.Track(&p.Conn, p); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200_000 {
			s.announce()
		}
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		if s.due.Load() == never {
			t.Fatal("nothing is due, it says")
		}
	}
}
