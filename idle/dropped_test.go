package idle

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// drivers counts the goroutines of trackers.
func drivers() int {
	stacks := make([]byte, 1<<22)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "idle.(*driver).run(")
}

// collected waits until the garbage collector has ended all but n drivers.
func collected(t *testing.T, n int) {
	t.Helper()
	for begun := time.Now(); drivers() > n; {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("%d drivers are left, want %d", drivers(), n)
		}
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
}

// TestDroppedTracker: a tracker that nobody refers to ends without Close.
func TestDroppedTracker(t *testing.T) {
	before := drivers()
	for range 10 {
		tr, err := New(Policy{IdleTimeout: 300 * time.Millisecond}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := new(Conn)
		if err := tr.Track(c, "owner", &Hooks{Expire: func(any, *TimeoutError) {}}); err != nil {
			t.Fatal(err)
		}
		c.Stop()
		tr.RecentEnds()
	}
	collected(t, before)
}

// TestDroppedTrackerKeepsItsLimits: while a connection has a limit, the garbage collector
// does not take its tracker.
func TestDroppedTrackerKeepsItsLimits(t *testing.T) {
	before := drivers()
	ended := make(chan Reason, 1)
	func() {
		tr, err := New(Policy{IdleTimeout: 300 * time.Millisecond}, nil)
		if err != nil {
			t.Fatal(err)
		}
		hooks := &Hooks{Expire: func(_ any, err *TimeoutError) { ended <- err.Reason }, Reap: func(any) {}}
		if err := tr.Track(new(Conn), "owner", hooks); err != nil {
			t.Fatal(err)
		}
	}()
	for patience := time.After(30 * time.Second); ; {
		select {
		case r := <-ended:
			if r != ReasonIdle {
				t.Errorf("ended by %v", r)
			}
			collected(t, before)
			return
		case <-patience:
			t.Fatal("the limit has no effect")
		case <-time.After(5 * time.Millisecond):
			runtime.GC()
		}
	}
}

// TestDroppedTrackerWithoutConnections: a tracker without connections does not wait for a
// deadline of one that has left.
func TestDroppedTrackerWithoutConnections(t *testing.T) {
	before := drivers()
	for range 10 {
		tr, err := New(Policy{IdleTimeout: time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := new(Conn)
		if err := tr.Track(c, "owner", &Hooks{Expire: func(any, *TimeoutError) {}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * defaultTick) // the driver sleeps until the limit is due
		c.Stop()
	}
	collected(t, before)
}
