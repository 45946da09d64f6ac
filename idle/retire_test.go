package idle

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// hasEnded reports whether the tracker is closed.
func (r *rig) hasEnded() bool {
	synctest.Wait()
	return isClosed(r.stop)
}

// wantEnded checks that the tracker has ended with nothing that is live, and takes
// nothing any more.
func (r *rig) wantEnded(tracked uint64) {
	r.Helper()
	if !r.hasEnded() {
		r.Fatal("the tracker has not ended")
	}
	_, newShard := r.NewShard(func(func()) error { return nil })
	for what, err := range map[string]error{
		"Track":       r.tryTrack(&Conn{}, &peer{}),
		"NewShard":    newShard,
		"Visit":       r.Visit(r.Context(), func(Info) { r.Error("visited") }),
		"SetPolicy":   r.SetPolicy(Policy{IdleTimeout: time.Second}),
		"SetCapacity": r.SetCapacity(Capacity{MaxConns: 1}),
	} {
		if err != ErrClosed {
			r.Errorf("%s: %v, want ErrClosed", what, err)
		}
	}
	if ph, err := r.Phase(Policy{Name: "late"}); ph != nil || err != ErrClosed {
		r.Errorf("Phase = %v, %v, want ErrClosed", ph, err)
	}
	if live, err := r.Tracker.Close(); live != nil || err != ErrClosed {
		r.Errorf("Close = %v, %v, want ErrClosed", live, err)
	}
	if st := r.Stats(); st.Live != 0 || st.Tracked != tracked {
		r.Errorf("%+v; want %d tracked, and none live", st, tracked)
	}
}

func TestRetireWithoutConns(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		p := r.peer()
		r.do(func() { p.Stop() })
		if r.hasEnded() {
			r.Error("the tracker has ended without Retire")
		}
		r.CloseWhenEmpty()
		r.wantEnded(1)
		r.CloseWhenEmpty()
	})
}

// TestRetireEndsWithTheLast has the last connection end. The simulation has it time out or be stopped.
func TestRetireEndsWithTheLast(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"handed back by its shard": func(r *rig) {
			p := r.peer()
			r.CloseWhenEmpty()
			if r.shard == nil {
				r.do(func() { p.Stop() })
				return
			}
			r.alive()
			if live := r.closeShard(); !slices.Equal(live, []any{p}) {
				r.Errorf("handed back %v", live)
			}
		},
		"while a callback of it runs": func(r *rig) { // for longer than a second: Expire comes all the same
			p := r.with(&peer{onEnd: func() { time.Sleep(10 * time.Second) }})
			r.CloseWhenEmpty()
			r.wait(time.Minute)
			r.closeShard()
			if len(p.expired) != 1 {
				r.Errorf("timed out: %v", p.expired)
			}
		},
		"retired in its callback": func(r *rig) {
			r.with(&peer{onExpire: r.CloseWhenEmpty})
			r.wait(2 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
				end(r)
				r.wantEnded(1)
			})
		})
	}
}

func (r *rig) alive() {
	r.Helper()
	if r.hasEnded() {
		r.Error("the tracker has ended before its last connection")
	}
}

// TestTrackTwiceWhileRetiring fails to track, which must not count.
func TestTrackTwiceWhileRetiring(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		p := r.peer()
		r.CloseWhenEmpty()
		if err := r.tryTrack(&p.Conn, p); err != ErrTracked {
			r.Errorf("tracked twice: %v", err)
		}
		r.alive()
		r.do(func() { p.Stop() })
		r.wantEnded(1)
	})
}

func TestCloseWhileRetiring(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		p := r.peer()
		r.CloseWhenEmpty()
		if live, err := r.Tracker.Close(); !slices.Equal(live, []any{p}) || err != nil {
			r.Errorf("Close = %v, %v", live, err)
		}
		r.CloseWhenEmpty()
		r.wantEnded(1)
	})
}

// TestRetireLosesNoConn has goroutines and loops track connections while the tracker
// retires: it must not end with one that was tracked with success.
func TestRetireLosesNoConn(t *testing.T) {
	for range 300 {
		tr, err := New(Policy{IdleTimeout: time.Hour}, &Options{Shards: 2})
		check(t, err)
		var users sync.WaitGroup
		use := func(track func(*Conn, any, *Hooks) error) {
			users.Go(func() {
				for {
					p := &peer{}
					if err := track(&p.Conn, p, hooksOf(p)); err == ErrClosed {
						return
					} else if err != nil || !p.Stop() {
						t.Errorf("Track: %v; the tracker has ended with a connection", err)
						return
					}
				}
			})
		}
		for range 2 {
			shard, err := tr.NewShard(func(func()) error { return nil })
			check(t, err)
			use(shard.Track)
			use(tr.Track)
		}
		tr.CloseWhenEmpty()
		users.Wait()
		if st := tr.Stats(); st.Live != 0 || st.Tracked != st.Closed {
			t.Fatalf("%+v", st)
		}
		<-tr.stop
	}
}

// TestExpireWhileRetired ends the last connection of a tracker that closes itself then, while a
// callback of it runs that doesn't return. The connection is expired all the same.
func TestExpireWhileRetired(t *testing.T) {
	for _, in := range []string{"OnEnd", "OnDrain"} {
		t.Run(in, func(t *testing.T) {
			onDriver(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
				goOn := make(chan struct{})
				block := func() { <-goOn }
				p := r.with(map[string]*peer{"OnEnd": {onEnd: block}, "OnDrain": {onDrain: block}}[in])
				p.PauseRead()
				r.mustDrain(Drain{ForceAfter: time.Second})
				r.CloseWhenEmpty()
				r.wait(time.Minute)
				if len(p.expired) != 1 || p.at.Sub(p.born) > 2*time.Second+r.late() {
					r.Errorf("expired after %v: %v", p.at.Sub(p.born), p.expired)
				}
				close(goOn)
				r.wait(time.Minute)
				if len(p.expired) != 1 {
					r.Errorf("later: expired %v", p.expired)
				}
			})
		})
	}
}

// drivers counts the goroutines of trackers.
func drivers() int {
	stacks := make([]byte, 1<<22)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "idle.(*Tracker).run(")
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

// TestDroppedTracker: the goroutine of a tracker that nobody refers to ends without Close, when the limit of its last
// connection would have passed.
func TestDroppedTracker(t *testing.T) {
	before := drivers()
	for range 10 {
		tr, err := New(Policy{IdleTimeout: 300 * time.Millisecond}, nil)
		check(t, err)
		c := new(Conn)
		check(t, tr.Track(c, "owner", plainHooks()))
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
		check(t, err)
		hooks := &Hooks{Expire: func(_ any, err *TimeoutError) { ended <- err.Reason }}
		check(t, tr.Track(new(Conn), "owner", hooks))
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
