package idle_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// newTracker returns a tracker of so many shards, with a tick of 10 ms.
func newTracker(t *testing.T, p idle.Policy, shards int) *idle.Tracker {
	t.Helper()
	tr, err := idle.New(p, &idle.Options{Tick: 10 * time.Millisecond, Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// track tracks a new connection, and returns it and a function that returns when it was ended.
func track(t *testing.T, to interface {
	Track(*idle.Conn, any, *idle.Hooks) error
}, onEnd func()) (c *idle.Conn, endedAt func() time.Time) {
	t.Helper()
	c = new(idle.Conn)
	var at time.Time
	err := to.Track(c, c, &idle.Hooks{Expire: func(any, *idle.TimeoutError) {
		at = time.Now()
		if onEnd != nil {
			onEnd()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c, func() time.Time { synctest.Wait(); return at }
}

// TestStallInAPass has the driver stand still in Expire of a connection of one shard, while the limit
// of a connection of another shard passes. Its input is read 40 ms after that.
func TestStallInAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTracker(t, idle.Policy{IdleTimeout: 300 * time.Millisecond}, 2)
		defer tr.Close()
		stall := func() { time.Sleep(300 * time.Millisecond) }
		_, first := track(t, tr, stall)
		time.Sleep(200 * time.Millisecond)
		second, ended := track(t, tr, nil)
		time.Sleep(450 * time.Millisecond) // 200 ms, 100 ms until the first one ends, 300 ms in Expire, 40 ms
		if first().IsZero() {
			t.Fatal("nothing stood still")
		}
		second.Touch()
		time.Sleep(100 * time.Millisecond)
		if at := ended(); !at.IsZero() {
			t.Errorf("ended %v after the stall", at.Sub(first().Add(300*time.Millisecond)))
		}
	})
}

// TestStallBesideAPendingPass has a loop that has a pass pending stand still for long. It reads the input
// that has come meanwhile after the pass.
func TestStallBesideAPendingPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTracker(t, idle.Policy{IdleTimeout: 300 * time.Millisecond}, 1)
		tasks := make(chan func(), 10)
		go func() {
			for task := range tasks {
				task()
			}
		}()
		s, err := tr.NewShard(func(pass func()) error { tasks <- pass; return nil })
		if err != nil {
			t.Fatal(err)
		}
		var first, ended func() time.Time
		var second *idle.Conn
		tasks <- func() { _, first = track(t, s, nil) }
		time.Sleep(200 * time.Millisecond)
		tasks <- func() { second, ended = track(t, s, nil) }
		tasks <- func() { time.Sleep(500 * time.Millisecond) } // after 100 ms of that the first one is due
		time.Sleep(400 * time.Millisecond)
		tasks <- func() { second.Touch() } // after the pass that is pending
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		if first().IsZero() || !ended().IsZero() {
			t.Errorf("the first one ended at %v, and the second one at %v", first(), ended())
		}
		tasks <- func() { s.Close() }
		tr.Close()
		close(tasks)
	})
}

// TestOldStallIsForgotten has a tracker stand still for ten minutes. An hour later it's a little late in
// each tick. That must not make a timeout of a minute ten minutes late.
func TestOldStallIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		tr := newTracker(t, idle.Policy{IdleTimeout: time.Minute}, 1)
		defer tr.Close()
		busy := make([]*idle.Conn, 200)
		for i := range busy {
			busy[i], _ = track(t, tr, nil)
		}
		touch := func() {
			for _, c := range busy {
				c.Touch()
			}
		}
		active := func(ticks int, late time.Duration) { // each tick ends that late, because of a connection whose Expire blocks
			for range ticks {
				touch()
				if late > 0 {
					c, _ := track(t, tr, func() { time.Sleep(late) })
					c.End("")
				}
				time.Sleep(tick + late)
			}
		}
		for range 80 { // until the clock runs
			touch()
		}
		active(100, 0)
		active(1, 10*time.Minute)
		active(100, 0)
		time.Sleep(time.Hour)
		for i := range busy {
			busy[i], _ = track(t, tr, nil)
		}
		for range 80 {
			touch()
		}
		active(1500, 3*time.Millisecond)
		c, ended := track(t, tr, nil)
		born := time.Now()
		for time.Since(born) < 55*time.Second {
			active(1, 3*time.Millisecond)
		}
		if d := c.Idle(); d < 54*time.Second {
			t.Errorf("idle for %v, it says", d)
		}
		for time.Since(born) < 62*time.Second {
			active(1, 3*time.Millisecond)
		}
		if at := ended(); at.IsZero() || at.Sub(born) < time.Minute || at.Sub(born) > time.Minute+100*time.Millisecond {
			t.Errorf("ended after %v", at.Sub(born))
		}
	})
}

// TestDroppedInABubble: a tracker may be dropped in the bubble in which it was made, and is collected after that.
func TestDroppedInABubble(t *testing.T) {
	collected := make(chan bool, 1)
	synctest.Test(t, func(t *testing.T) {
		tr := newTracker(t, idle.Policy{IdleTimeout: time.Second}, 1)
		c, _ := track(t, tr, nil)
		time.Sleep(100 * time.Millisecond)
		c.Stop()
		time.Sleep(time.Minute)
	})
	tr := newTracker(t, idle.Policy{IdleTimeout: time.Second}, 1)
	runtime.AddCleanup(tr, func(c chan bool) { c <- true }, collected)
	tr = nil
	for range 100 {
		runtime.GC()
		select {
		case <-collected:
			return
		default:
			runtime.Gosched()
		}
	}
	t.Error("a tracker that nobody refers to isn't collected")
}

// TestLoopThatTakesNoTask: an execute that blocks, because its loop does, holds up no other shard.
func TestLoopThatTakesNoTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTracker(t, idle.Policy{IdleTimeout: time.Second}, 1)
		tasks := make(chan func())
		go func() {
			for task := range tasks {
				task()
			}
		}()
		s, err := tr.NewShard(func(pass func()) error { tasks <- pass; return nil })
		if err != nil {
			t.Fatal(err)
		}
		var onLoop func() time.Time
		tasks <- func() { _, onLoop = track(t, s, nil) }
		tasks <- func() { time.Sleep(time.Minute) }
		time.Sleep(500 * time.Millisecond)
		_, elsewhere := track(t, tr, nil)
		born := time.Now()
		time.Sleep(2 * time.Second)
		if d := elsewhere().Sub(born); d < time.Second || d > time.Second+30*time.Millisecond {
			t.Errorf("ended after %v", d)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if onLoop().IsZero() {
			t.Error("the loop goes on, and its connection lives")
		}
		tasks <- func() { s.Close() }
		if _, err := tr.Close(); err != nil {
			t.Error(err)
		}
		close(tasks)
	})
}

// TestDeferredIsATickLate has two connections pass their limit at once. While the first one's Expire runs, the second one
// waits. It counts as deferred if that takes a tick or more.
func TestDeferredIsATickLate(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		want  uint64
	}{{8 * time.Millisecond, 0}, {10 * time.Millisecond, 1}, {15 * time.Millisecond, 1}, {40 * time.Millisecond, 1}} {
		synctest.Test(t, func(t *testing.T) {
			tr := newTracker(t, idle.Policy{IdleTimeout: time.Second}, 1)
			defer tr.Close()
			for range 2 {
				track(t, tr, func() { time.Sleep(c.takes) })
			}
			time.Sleep(2 * time.Second)
			if st := tr.Stats(); st.Deferred != c.want || st.Lateness.Count() != 2 {
				t.Errorf("%v: %d of %d were deferred, want %d", c.takes, st.Deferred, st.Lateness.Count(), c.want)
			}
		})
	}
}
