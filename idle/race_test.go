package idle

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// These tests are for the race detector, in real time: all that may happen at
// once does, with timeouts of a few ticks. They say nothing about when.

func raceTime() time.Duration {
	if testing.Short() {
		return 200 * time.Millisecond
	}
	return time.Second
}

var racePolicy = Policy{
	ExplicitUse: true, IdleTimeout: 3 * time.Millisecond, ReadTimeout: 2 * time.Millisecond, WriteTimeout: 2 * time.Millisecond,
	MaxAge: 20 * time.Millisecond, MaxAgeJitter: 5 * time.Millisecond, MaxAgeGrace: 2 * time.Millisecond,
	Heartbeat:   Heartbeat{Interval: time.Millisecond, Timeout: time.Millisecond, Misses: 2},
	MinReadRate: Rate{1000, 5 * time.Millisecond}, MinWriteRate: Rate{1000, 5 * time.Millisecond},
}

// A racer is one tracking of a Conn, which counts its outcomes.
type racer struct {
	outcomes atomic.Int32
	expired  atomic.Int32
	n        int
	label    string
}

func (o *racer) Expire(*TimeoutError)         { o.outcomes.Add(1); o.expired.Add(1) }
func (o *racer) Ping() error                  { return nil }
func (o *racer) OnTimeout(*TimeoutError) bool { o.n++; return o.n%3 == 0 } // never at once with itself
func (o *racer) OnDrain()                     {}
func (o *racer) Examine() SocketState {
	return SocketState{In: 5 * time.Millisecond, Unread: rand.IntN(8) == 0} // unread input now and then
}

// slotted is a Conn with those who use it. The lock is that of a server which
// has all users of a connection gone before it serves the next one.
type slotted struct {
	conn  *Conn // nil before the first one
	using sync.RWMutex
	cur   atomic.Pointer[racer]
}

// TestRaceTrackerClose closes a tracker while connections come and go.
func TestRaceTrackerClose(t *testing.T) {
	for begun := time.Now(); time.Since(begun) < raceTime()/2; {
		tr, err := New(racePolicy, &Options{Tick: time.Millisecond, Shards: 3})
		if err != nil {
			t.Fatal(err)
		}
		var tracked, outcomes, handed atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					o := &racingOwner{outcomes: &outcomes}
					if tr.Track(&o.conn, o, hooksOf(o)) != nil {
						return
					}
					tracked.Add(1)
					o.conn.Touch()
					if rand.IntN(2) == 0 && o.conn.Stop() {
						outcomes.Add(1)
					}
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		live, err := tr.Close()
		if err != nil {
			t.Fatal(err)
		}
		handed.Store(int64(len(live)))
		wg.Wait()
		if got := outcomes.Load() + handed.Load(); got != tracked.Load() {
			t.Fatalf("%d tracked, %d outcomes: %+v", tracked.Load(), got, tr.Stats())
		}
	}
}

type racingOwner struct {
	conn     Conn
	outcomes *atomic.Int64
}

func (o *racingOwner) Expire(*TimeoutError) { o.outcomes.Add(1) }
func (o *racingOwner) Ping() error          { return nil }
