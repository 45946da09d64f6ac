package census

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

func newTracker(t *testing.T, p idle.Policy) *idle.Tracker {
	t.Helper()
	tr, err := idle.New(p, &idle.Options{Label: func(owner any) string { return fmt.Sprint(owner) }, Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

// track tracks a connection, to whose peer unsent bytes wait.
func track(t *testing.T, tr *idle.Tracker, label string, unsent int) *idle.Conn {
	t.Helper()
	c := new(idle.Conn)
	err := tr.Track(c, label, &idle.Hooks{Expire: func(any, *idle.TimeoutError) {}, Unsent: func(any) int { return unsent }})
	if err != nil {
		t.Fatal(err)
	}
	if unsent > 0 {
		c.AwaitWrite()
	}
	return c
}

func take(t *testing.T, tr *idle.Tracker, n int, orders ...Order) *Census {
	t.Helper()
	c, err := Take(t.Context(), tr, n, orders...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTracker(t, idle.Policy{Name: "open", IdleTimeout: 30 * time.Second})
		short, err := tr.Phase(idle.Policy{Name: "short", PhaseTimeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		free, err := tr.Phase(idle.Policy{Name: "free"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			track(t, tr, "a", 1000*i)
		}
		track(t, tr, "b", 0).Enter(short)
		track(t, tr, "c", 0).Enter(free)
		at := time.Now()
		c := take(t, tr, 0)
		if c.Phases["free"].Live != 1 || c.Phases["open"].Live != 3 || c.Phases["short"] != (Phase{1, short.Policy()}) || len(c.Phases) != 3 || c.Live != 5 || c.Ending != [3]int{0, 1, 4} {
			t.Errorf("%+v", c)
		}
		if c.Unsent != 3000 || c.WithUnsent != 2 || len(c.Lists) != 0 || !c.At.Equal(at) || c.Took < 0 || c.Took > time.Second {
			t.Errorf("%+v", c)
		}
		time.Sleep(4500 * time.Millisecond)
		if c = take(t, tr, 0); c.Ending != [3]int{1, 1, 4} {
			t.Errorf("after 4.5 s: %v", c.Ending)
		}
		if c.Idle.Count() != 5 || c.Age.Count() != 5 || c.Age.Quantile(0) != 8*time.Second || c.Idle.Quantile(1) != 8*time.Second || c.Age.SumMicros < 21e6 || c.Age.SumMicros > 22.5e6 {
			t.Errorf("idle %v, age %v", c.Idle, c.Age)
		}
	})
}

// TestNote compares with what package idle counts.
func TestNote(t *testing.T) {
	for i := range idle.NumBuckets - 1 {
		for _, d := range []time.Duration{idle.BucketBound(i) - 1, idle.BucketBound(i), idle.BucketBound(i) + 1} {
			var h idle.Histogram
			note(&h, d)
			if got := h.Quantile(1); got < d || d > idle.BucketBound(0) && got >= 2*d+2 && got != idle.BucketBound(idle.NumBuckets-1) || h.SumMicros != uint64(d.Microseconds()) {
				t.Errorf("%v is counted as at most %v, %d µs", d, got, h.SumMicros)
			}
		}
	}
	var h idle.Histogram
	if note(&h, -1); h.Buckets[0] != 1 || h.SumMicros != 0 {
		t.Errorf("-1 ns is counted as %v", h)
	}
}

// TestLists: each list has the first connections in its order, whatever the order of the visit.
func TestLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, n = 500, 20
		tr := newTracker(t, idle.Policy{IdleTimeout: time.Hour})
		free, err := tr.Phase(idle.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		conns := make([]*idle.Conn, all)
		unsent := rand.Perm(all)
		for i := range conns {
			if conns[i] = track(t, tr, fmt.Sprint(i), unsent[i]); i%10 == 0 {
				conns[i].Enter(free) // never ends
			}
			time.Sleep(time.Second)
		}
		used := rand.Perm(all)
		for _, i := range used {
			conns[i].Touch()
			time.Sleep(time.Second)
		}
		c := take(t, tr, n, MostIdle, Oldest, NextToEnd, MostUnsent)
		ending := 0
		for i := range n {
			for used[ending]%10 == 0 {
				ending++
			}
			for o, want := range map[Order]string{MostIdle: fmt.Sprint(used[i]), Oldest: fmt.Sprint(i), NextToEnd: fmt.Sprint(used[ending])} {
				if got := c.Lists[o][i].Label; got != want {
					t.Errorf("order %d: place %d has %s, want %s", o, i, got, want)
				}
			}
			if got := c.Lists[MostUnsent][i].Unsent; got != all-1-i {
				t.Errorf("place %d has %d unsent bytes, want %d", i, got, all-1-i)
			}
			ending++
		}
		for o, l := range c.Lists {
			if len(l) != n {
				t.Errorf("order %d: %d are listed", o, len(l))
			}
		}
		conn := c.Lists[NextToEnd][0]
		if left := time.Hour - conn.EndsIn - conn.Idle; conn.EndsBy != idle.ReasonIdle || left < -time.Second || left > time.Second || conn.Busy {
			t.Errorf("%+v", conn)
		}
		if l := take(t, tr, 2*all, Oldest).Lists[Oldest]; len(l) != all || l[all-1].Label != fmt.Sprint(all-1) {
			t.Errorf("%d of %d are listed", len(l), all)
		}
	})
}

// block adds a shard whose loop does nothing until release is called.
func block(t *testing.T, tr *idle.Tracker) (release func()) {
	t.Helper()
	passes := make(chan func(), 1000)
	if _, err := tr.NewShard(func(pass func()) error { passes <- pass; return nil }); err != nil {
		t.Fatal(err)
	}
	release = func() {
		go func() {
			for pass := range passes {
				pass()
			}
		}()
	}
	t.Cleanup(func() {
		tr.Close()
		synctest.Wait() // another Close may be waiting for the last execute
		close(passes)
	})
	return release
}

func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTracker(t, idle.Policy{IdleTimeout: time.Hour})
		track(t, tr, "a", 0)
		cache := NewCache(tr, 10, Oldest)
		get := func() *Census {
			t.Helper()
			c, err := cache.Get(t.Context())
			if err != nil || len(c.Lists[Oldest]) != c.Live {
				t.Fatalf("%+v, %v", c, err)
			}
			return c
		}
		found := make(chan *Census)
		for range 100 {
			go func() { found <- get() }()
		}
		first := <-found
		for range 99 {
			if c := <-found; c != first {
				t.Error("there was more than one census")
			}
		}
		time.Sleep(Every - time.Since(first.At) - 1)
		if get() != first {
			t.Error("there was another census within a second")
		}
		time.Sleep(10 * Every)
		track(t, tr, "b", 0)
		if c := get(); c == first || c.Live != 2 || !c.At.Equal(first.At.Add(11*Every-1)) {
			t.Errorf("%+v", c)
		}
	})
}

// TestCacheOfBlockedLoop: a census that isn't finished in time goes on. Nobody waits for it any longer.
func TestCacheOfBlockedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTracker(t, idle.Policy{IdleTimeout: time.Hour})
		track(t, tr, "a", 0)
		cache := NewCache(tr, 0)
		get := func(ctx context.Context, want *Census, wantErr error, after time.Duration) {
			t.Helper()
			begun := time.Now()
			c, err := cache.Get(ctx)
			if c != want || !errors.Is(err, wantErr) || time.Since(begun) != after {
				t.Errorf("%+v and %v after %v; want %+v and %v after %v", c, err, time.Since(begun), want, wantErr, after)
			}
		}
		first, err := cache.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(Every)
		release := block(t, tr)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		get(ctx, first, context.DeadlineExceeded, 100*time.Millisecond)
		get(t.Context(), first, ErrLate, Patience-100*time.Millisecond)
		get(t.Context(), first, ErrLate, 0)
		release()
		time.Sleep(Every)
		if c, err := cache.Get(t.Context()); c == first || err != nil {
			t.Errorf("%+v, %v", c, err)
		}
		time.Sleep(Every)
		time.AfterFunc(Every/2, func() { tr.Close() })
		block(t, tr)
		get(t.Context(), nil, idle.ErrClosed, Every/2)
		get(t.Context(), nil, idle.ErrClosed, 0)
	})
}
