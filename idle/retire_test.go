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
	select {
	case <-r.stop:
		return true
	default:
		return false
	}
}

// wantEnded checks that the tracker has ended with nothing that is live, and takes
// nothing any more.
func (r *rig) wantEnded(tracked uint64) {
	r.Helper()
	if !r.hasEnded() {
		r.Fatal("the tracker has not ended")
	}
	if err := r.tryTrack(&Conn{}, &peer{}); err != ErrClosed {
		r.Errorf("Track: %v, want ErrClosed", err)
	}
	if _, err := r.NewShard(func(func()) error { return nil }); err != ErrClosed {
		r.Errorf("NewShard: %v, want ErrClosed", err)
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

// TestRetireEndsWithTheLast has the last connection end in all ways.
func TestRetireEndsWithTheLast(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"closed": func(r *rig) { p := r.peer(); r.CloseWhenEmpty(); r.alive(); r.do(func() { p.Stop() }) },
		"timed out": func(r *rig) {
			p := r.peer()
			r.CloseWhenEmpty()
			r.alive()
			r.dies(p, time.Now(), time.Second, ReasonIdle)
		},
		"exempt until it is closed": func(r *rig) {
			p, exempt := r.peer(), r.phaseOf(Policy{})
			r.do(func() { p.Enter(exempt) })
			r.CloseWhenEmpty()
			r.wait(time.Hour)
			r.alive()
			r.do(func() { p.Stop() })
		},
		"kept, then not": func(r *rig) {
			k := &keeper{}
			k.keep = func(*TimeoutError) bool { return len(k.asked) < 3 }
			r.track(&k.Conn, k)
			r.CloseWhenEmpty()
			r.wait(2500 * time.Millisecond)
			r.alive()
			r.wait(time.Second)
			if len(k.expired) != 1 {
				r.Errorf("timed out: %v", k.expired)
			}
		},
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
			p := &lateParter{}
			r.track(&p.Conn, p)
			r.CloseWhenEmpty()
			r.wait(time.Minute)
			r.closeShard()
			if len(p.expired) != 1 {
				r.Errorf("timed out: %v", p.expired)
			}
		},
		"retired in its callback": func(r *rig) {
			p := &retirer{tracker: r.Tracker}
			r.track(&p.Conn, p)
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

type lateParter struct{ peer }

func (*lateParter) OnEnd(*TimeoutError) { time.Sleep(10 * time.Second) }

type retirer struct {
	peer
	tracker *Tracker
}

func (p *retirer) Expire(*TimeoutError) { p.tracker.CloseWhenEmpty() }

// TestTrackWhileRetiring tracks a connection before the last of the others ends. Its
// limits go on.
func TestTrackWhileRetiring(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		first, second := r.peer(), r.peer()
		r.CloseWhenEmpty()
		r.do(func() { first.Stop() })
		late, begun := r.peer(), time.Now()
		r.do(func() { second.Stop() })
		r.alive()
		r.dies(late, begun, time.Second, ReasonIdle)
		r.wantEnded(3)
	})
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
		if err != nil {
			t.Fatal(err)
		}
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
			if err != nil {
				t.Fatal(err)
			}
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
	for name, test := range map[string]func(block func()) *Hooks{
		"OnEnd":   func(block func()) *Hooks { return &Hooks{OnEnd: func(any, *TimeoutError) { block() }} },
		"OnDrain": func(block func()) *Hooks { return &Hooks{OnDrain: func(any) { block() }} },
	} {
		t.Run(name, func(t *testing.T) {
			onDriver(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
				release := make(chan struct{})
				letGo := sync.OnceFunc(func() { close(release) })
				defer letGo()
				h := test(func() { <-release })
				var expired []time.Duration
				begun, c := time.Now(), new(Conn)
				h.Expire = func(any, *TimeoutError) { expired = append(expired, time.Since(begun)) }
				if err := r.Track(c, c, h); err != nil {
					r.Fatal(err)
				}
				r.do(func() { c.PauseRead() })
				if _, err := r.Drain(Drain{ForceAfter: time.Second}); err != nil {
					r.Fatal(err)
				}
				r.CloseWhenEmpty()
				r.wait(time.Minute)
				if len(expired) != 1 || expired[0] > 2*time.Second+r.late() {
					r.Errorf("expired after %v", expired)
				}
				letGo()
				r.wait(time.Minute)
				if len(expired) != 1 {
					r.Errorf("later: expired after %v", expired)
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
		hooks := &Hooks{Expire: func(_ any, err *TimeoutError) { ended <- err.Reason }}
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
