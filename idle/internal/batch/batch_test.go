package batch

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// records are what a receiver has got.
type records struct {
	mu      sync.Mutex
	batches [][]int
}

func (r *records) report(all []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = append(r.batches, slices.Clone(all))
}

func (r *records) have() [][]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.batches)
}

func (r *records) all() []int { return slices.Concat(r.have()...) }

// wait lets a time pass, and then all goroutines do what they can.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestBatches adds records at several times. Each is reported once, in order, when the time to
// collect is over, and then the goroutine ends.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := &records{}
		r := New(time.Second, nil, got.report)
		for i, pause := range []time.Duration{0, 100 * time.Millisecond, time.Second, time.Minute, 0} {
			wait(pause)
			r.Add(i)
			if n := r.Running.Count(); n != 1 {
				t.Errorf("%d goroutines", n)
			}
		}
		if want := [][]int{{0, 1}, {2}}; !slices.EqualFunc(got.have(), want, slices.Equal) {
			t.Errorf("%v are reported, want %v", got.have(), want)
		}
		wait(time.Minute)
		if want := [][]int{{0, 1}, {2}, {3, 4}}; !slices.EqualFunc(got.have(), want, slices.Equal) {
			t.Errorf("%v are reported, want %v", got.have(), want)
		}
		if n := r.Running.Count(); n != 0 || len(r.waiting) != 0 || r.Lost() != 0 {
			t.Errorf("%d goroutines, %d wait, %d are lost", n, len(r.waiting), r.Lost())
		}
	})
}

// TestRecentAlone keeps records that nobody receives. The last ones are there, the newest first.
func TestRecentAlone(t *testing.T) {
	r := New[int](time.Second, nil, nil)
	for i := range Kept + 10 {
		r.Add(i)
		if all := r.Recent(); len(all) != min(i+1, Kept) || all[0] != i || all[len(all)-1] != max(0, i+1-Kept) {
			t.Fatalf("after %d: %d records from %d to %d", i, len(all), all[0], all[len(all)-1])
		}
	}
	if n := r.Running.Count(); n != 0 || len(r.waiting) != 0 {
		t.Errorf("%d goroutines, %d records wait", n, len(r.waiting))
	}
}

// TestManyAtOnce adds so many records that the goroutine does not wait for longer, or some would
// be lost.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := &records{}
		r := New(time.Hour, nil, got.report)
		for i := range MostWaiting / 2 {
			r.Add(i)
		}
		synctest.Wait()
		if n := len(got.all()); n != MostWaiting/2 {
			t.Errorf("%d are reported at once", n)
		}
		wait(2 * time.Hour)
	})
}

// TestSlowReceiver adds records while the receiver blocks. Those that don't fit are counted.
func TestSlowReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, goOn := &records{}, make(chan struct{})
		r := New(time.Second, nil, func(all []int) {
			<-goOn
			got.report(all)
		})
		r.Add(0)
		wait(time.Minute)
		for i := range MostWaiting + 100 {
			r.Add(1 + i)
		}
		if r.Lost() != 100 {
			t.Errorf("%d are lost", r.Lost())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if left := r.Running.Await(ctx); left != 1 {
			t.Errorf("%d goroutines are left", left)
		}
		close(goOn)
		wait(time.Minute)
		if all := got.all(); len(all) != 1+MostWaiting || !slices.IsSorted(all) {
			t.Errorf("%d are reported", len(all))
		}
	})
}

// TestStop has stop closed, also before the first record. Records are reported at once.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, stop := &records{}, make(chan struct{})
		r := New(time.Hour, stop, got.report)
		r.Add(1)
		synctest.Wait()
		if len(got.all()) != 0 {
			t.Error("reported before the time is over")
		}
		close(stop)
		synctest.Wait()
		r.Add(2)
		synctest.Wait()
		if !slices.Equal(got.all(), []int{1, 2}) || r.Running.Count() != 0 {
			t.Errorf("%v are reported, %d goroutines are left", got.have(), r.Running.Count())
		}
	})
}

// TestGoexit ends the goroutine in the receiver. Another one goes on.
func TestGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := &records{}
		r := New(time.Second, nil, func(all []int) {
			got.report(all)
			runtime.Goexit()
		})
		for i := range 3 {
			r.Add(i)
			wait(1500 * time.Millisecond)
		}
		wait(time.Minute)
		if !slices.Equal(got.all(), []int{0, 1, 2}) || r.Running.Count() != 0 {
			t.Errorf("%v are reported, %d goroutines are left", got.have(), r.Running.Count())
		}
	})
}

// TestRaceAdd adds records from many goroutines. Each is reported once.
func TestRaceAdd(t *testing.T) {
	const adders, each = 8, 1000
	got := &records{}
	r := New(time.Microsecond, nil, got.report)
	var wg sync.WaitGroup
	for g := range adders {
		wg.Go(func() {
			for i := range each {
				r.Add(g*each + i)
				r.Recent()
			}
		})
	}
	wg.Wait()
	r.Running.Await(t.Context())
	all := got.all()
	if slices.Sort(all); len(all) != adders*each || len(slices.Compact(all)) != adders*each {
		t.Errorf("%d of %d are reported", len(all), adders*each)
	}
}
