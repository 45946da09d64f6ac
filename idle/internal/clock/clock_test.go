package clock

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// TestEndOfAStampIsAfterItsActivities has a clock whose copies are made late, by
// less than the slack, or more, or much more. When an activity happens the tick
// that its stamp is later taken for must not have come yet.
func TestEndOfAStampIsAfterItsActivities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type activity struct{ stamp, settled int64 }
		rng := rand.New(rand.NewPCG(1, 2))
		k := New(10*time.Millisecond, func() {})
		var now AtomicStamp
		k.Attach(&now)
		k.wake() // nobody else uses it
		var all []activity
		for range 5000 {
			late := []time.Duration{k.Slack / 2, k.Slack * 2, 20 * k.Tick}[rng.IntN(3)]
			time.Sleep(k.Until(k.Now()+1) + time.Duration(rng.Int64N(int64(late))))
			for range 2 { // of which the first has a stale stamp
				a := activity{k.Now() - int64(StampOf(k.Now()).Sub(now.Load())), k.Settled()}
				if k.End(a.stamp) <= a.settled {
					t.Fatalf("stamp %d, which has not ended, is taken for %d at %d", a.stamp, k.End(a.stamp), a.settled)
				}
				all = append(all, a)
				k.Publish()
			}
		}
		for _, a := range all {
			if end := k.End(a.stamp); end <= a.settled {
				t.Fatalf("stamp %d is taken for %d, but was given at %d", a.stamp, end, a.settled)
			}
		}
	})
}

// TestGaps checks the memory of late ticks by itself, beyond what it keeps exactly.
func TestGaps(t *testing.T) {
	var g gaps
	if end := g.end(7); end != 8 {
		t.Errorf("an empty memory: %d", end)
	}
	const n, stall, longest, others = 5000, 1000, 60_000, 16
	at := func(i int64) (stamp, end int64) {
		if stamp, end = 100*i, 100*i+10+i%7; i > stall {
			stamp, end = stamp+longest, end+longest
		} else if i == stall {
			end = stamp + longest
		}
		return stamp, end
	}
	for i := range int64(n) {
		g.add(at(i))
	}
	for i := range int64(n) {
		stamp, want := at(i)
		got := g.end(stamp)
		if recent := i >= n-mostGaps/2; got < want || recent && got != want {
			t.Errorf("end(%d) = %d, want %d", stamp, got, want)
		}
		if i > (n+stall)/2 && got > want+others { // the long gap is about as far away as the present
			t.Errorf("end(%d) = %d, want about %d", stamp, got, want)
		}
		if got := g.end(stamp + 50); i >= n-mostGaps/2 && got != stamp+51 {
			t.Errorf("end(%d) = %d", stamp+50, got)
		}
	}
}

// TestAllowance compares an allowance with a bucket of tokens.
func TestAllowance(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	a := allowance{each: 50, most: 50 * 20}
	at, bucket, filled := time.Duration(10_000), int64(50*20), time.Duration(10_000)
	taken := 0
	for range 100_000 {
		at += []time.Duration{time.Duration(rng.IntN(20)), time.Duration(rng.IntN(100)), time.Duration(rng.IntN(200))}[rng.IntN(3)*rng.IntN(2)]
		bucket = min(bucket+int64(at-filled), 50*20)
		filled = at
		want := bucket >= 50
		if want {
			bucket -= 50
			taken++
		}
		if got := a.take(at); got != want {
			t.Fatalf("at %d: %v, want %v", at, got, want)
		}
	}
	if taken < 10_000 || taken > 90_000 {
		t.Errorf("%d taken", taken)
	}
	a.withdraw()
	if a.take(at + time.Hour) {
		t.Error("taken although it was withdrawn")
	}
	a.grant()
	if !a.take(at) {
		t.Error("refused although it was granted")
	}
}

// TestStampOf checks that no tick looks like sleep, and that its stand-in is in
// favour of the connection.
func TestStampOf(t *testing.T) {
	for _, tick := range []int64{1, 1<<32 - 1, 1 << 32, 1<<32 + 1, 3 << 32} {
		s := StampOf(tick)
		if s.Asleep() {
			t.Errorf("StampOf(%d) is asleep", tick)
		}
		if got := tick + int64(s.Bits()-uint32(tick)); got < tick || got > tick+1 {
			t.Errorf("StampOf(%d) stands for %d", tick, got)
		}
	}
}

// TestNoStampIsZero computes stamps around the wrap. None may look like sleep.
func TestNoStampIsZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New(time.Second, func() {})
		k.Shift((1<<32 - 5) * k.Tick)
		time.Sleep(10 * time.Second)
		for d := time.Second; d < 10*time.Second; d += time.Second / 4 {
			if s, ok := k.StampAgo(d); !ok || s.Asleep() {
				t.Errorf("%v ago: %d, %v", d, s.Bits(), ok)
			}
		}
	})
}
