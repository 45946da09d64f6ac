package idle

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func plainHooks() *Hooks { return &Hooks{Expire: func(any, *TimeoutError) {}} }

// TestTwoTracksOfOneConn has two goroutines track the same Conn. One of them succeeds.
func TestTwoTracksOfOneConn(t *testing.T) {
	tr, err := New(Policy{IdleTimeout: time.Hour}, &Options{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for range 3000 {
		var c Conn
		var ready, tracked atomic.Int32
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				for ready.Add(1); ready.Load() < 2; {
				}
				switch err := tr.Track(&c, &c, plainHooks()); err {
				case nil:
					tracked.Add(1)
				case ErrTracked:
				default:
					t.Error(err)
				}
			})
		}
		both.Wait()
		if tracked.Load() != 1 || !c.Stop() {
			t.Fatalf("%d have succeeded", tracked.Load())
		}
	}
	if st := tr.Stats(); st.Live != 0 || st.Tracked != 3000 || st.Closed != 3000 {
		t.Errorf("%+v", st)
	}
}

// TestNobodyMakesRoomOnAClosedShard has a full tracker. Nobody has to make room on a shard that is closed.
func TestNobodyMakesRoomOnAClosedShard(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		all := make([]peer, 4)
		for i := range all {
			if err := r.Tracker.Track(&all[i].Conn, &all[i], hooksOf(&all[i])); err != nil {
				r.Fatal(err)
			}
		}
		r.closeShard()
		r.wait(time.Minute)
		r.mustHold(Capacity{MaxConns: 4})
		var err error
		r.do(func() {
			var c Conn
			err = r.shard.Track(&c, &c, plainHooks())
		})
		r.wait(time.Second)
		if st := r.Stats(); err != ErrShardClosed || st.Live != 4 || st.Refused != 0 {
			r.Errorf("%v: %d are live, %d were refused", err, st.Live, st.Refused)
		}
	})
}

// TestTrackOnAClosedTracker has loops keep a tracker full that is closed, and one whose Close waits for a callback.
func TestTrackOnAClosedTracker(t *testing.T) {
	check := func(r *rig) {
		r.Helper()
		var c Conn
		if err := r.Tracker.Track(&c, &c, plainHooks()); err != ErrClosed || r.Stats().Refused != 0 {
			r.Errorf("%v: %d were refused", err, r.Stats().Refused)
		}
	}
	inBubble(t, Policy{IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		r.peers(4)
		r.mustHold(Capacity{MaxConns: 4, MinIdle: time.Minute})
		r.Tracker.Close()
		check(r)
	})
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		goOn := make(chan struct{})
		r.keeper(func(*TimeoutError) bool { <-goOn; return true })
		r.wait(2 * time.Second)
		r.mustHold(Capacity{MaxConns: 1, MinIdle: time.Minute})
		go r.Tracker.Close()
		synctest.Wait()
		check(r)
		close(goOn)
	})
}

// TestCapacityBesideTracks sets a capacity while many goroutines are in Track, waiting for a lock. It holds for them, too.
func TestCapacityBesideTracks(t *testing.T) {
	const most, n = 40, 100
	for _, before := range []Capacity{{}, {MaxConns: 1000}} {
		tr, err := New(Policy{IdleTimeout: time.Hour}, &Options{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.SetCapacity(before); err != nil {
			t.Fatal(err)
		}
		var waiting, all sync.WaitGroup
		track := func() {
			c := new(Conn)
			if err := tr.Track(c, c, plainHooks()); err != nil && err != ErrFull {
				t.Error(err)
			}
		}
		tr.room.mu.Lock()
		tr.own[0].mu.Lock()
		waiting.Add(n)
		for range n {
			all.Go(func() { waiting.Done(); track() })
		}
		waiting.Wait()
		time.Sleep(time.Millisecond) // those that don't wait yet come later, and prove nothing
		tr.room.set(&Capacity{MaxConns: most, MinIdle: time.Hour})
		tr.own[0].mu.Unlock()
		tr.room.mu.Unlock()
		for range n {
			track()
		}
		all.Wait()
		if n := tr.live(); n != most {
			t.Errorf("%d are live, want %d", n, most)
		}
		tr.Close()
	}
}
