package idle

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func (r *rig) mustHold(c Capacity) {
	r.Helper()
	check(r, r.SetCapacity(c))
}

// TestEvictsFromTheMostIdle opens connections beyond the capacity, while others are
// active, and holds each eviction against all idle times.
func TestEvictsFromTheMostIdle(t *testing.T) {
	const most, rounds, grace = 2000, 1000, 5 * time.Second
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		rng := rand.New(rand.NewPCG(1, 2))
		active := map[*peer]time.Time{}
		var evicted []*peer
		allMoreIdle := 0
		for range most {
			g := r.peer()
			active[g] = time.Now()
		}
		r.mustHold(Capacity{MaxConns: most, MinIdle: grace})
		for range rounds {
			synctest.Wait()         // evictions are under way
			for g := range active { // a few at random
				if g.err() == nil {
					r.do(g.Touch)
					active[g] = time.Now()
				}
				if rng.IntN(3) == 0 {
					break
				}
			}
			r.wait(time.Duration(rng.IntN(30)) * time.Millisecond)
			for g := range active {
				if g.err() != nil {
					evicted = append(evicted, g)
				}
			}
			for _, g := range evicted {
				if active[g].IsZero() {
					continue
				}
				if idle := g.at.Sub(active[g]); idle < grace-r.opts.Tick || g.err().Reason != ReasonEvict {
					t.Fatalf("%v, idle for %v", g.err(), idle)
				}
				moreIdle := 0
				for _, at := range active {
					if at.Before(active[g].Add(-2 * r.opts.Tick)) {
						moreIdle++
					}
				}
				if moreIdle > most/5 {
					t.Fatalf("%d of %d were more idle than the one that was evicted", moreIdle, most)
				}
				allMoreIdle += moreIdle
				delete(active, g)
			}
			if r.clock.Elapsed() < grace+time.Second {
				continue
			}
			g := &peer{}
			if err := r.tryTrack(&g.Conn, g); err != nil {
				t.Fatalf("after %d evictions: %v", len(evicted), err)
			}
			active[g] = time.Now()
		}
		r.wait(time.Second)
		st := r.Stats()
		if mean := float64(allMoreIdle) / float64(len(evicted)); mean > most/50 {
			t.Errorf("%.1f of %d were more idle, in the mean", mean, most)
		}
		if st.Live > most || st.Evicted < uint64(rounds/3) || st.Refused > 0 || st.Tracked != st.Live+st.Evicted {
			t.Errorf("%+v", st)
		}
	})
}

// TestNewcomerInAnEviction has a connection come in the Expire of one that is evicted for another newcomer. That place is
// taken, so another connection is evicted for it.
func TestNewcomerInAnEviction(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		const most = 3
		last := &peer{}
		come := sync.OnceFunc(func() {
			if err := r.trackOf()(&last.Conn, last, hooksOf(last)); err != nil {
				r.Error(err)
			}
		})
		for range most {
			r.with(&peer{onExpire: come})
		}
		r.wait(time.Minute)
		r.mustHold(Capacity{MaxConns: most, MinIdle: time.Second})
		r.peer()
		r.wait(time.Second)
		if st := r.Stats(); st.Live != most || st.Evicted != 2 || !last.Live() {
			r.Errorf("%d are live, %d were evicted", st.Live, st.Evicted)
		}
	})
}

// TestEvictsWhomAnEarlierCapacityKept changes the capacity while a connection is being
// evicted. That one stays, but is not taken for one in use. The loop runs no pass between the two.
func TestEvictsWhomAnEarlierCapacityKept(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		r.mustHold(Capacity{MaxConns: 1})
		p := r.peer()
		r.wait(time.Second)
		r.do(func() {
			if n := r.EvictIdle(1); n != 1 {
				r.Errorf("%d are evicted", n)
			}
			if err := r.SetCapacity(Capacity{MaxConns: 1, MinIdle: time.Millisecond}); err != nil {
				r.Error(err)
			}
		})
		r.lives(p, 50*time.Millisecond)
		r.peer()
		r.wait(50 * time.Millisecond)
		if len(p.expired) != 1 || p.expired[0].Reason != ReasonEvict {
			r.Errorf("expired %v", p.expired)
		}
	})
}

// TestFullForGood tracks connections one after the other in a full tracker. Each evicts
// another one:
//
//	newcomer: has a connection evicted, and gives its place away
//	driver:   ends that connection, and reports it
//	newcomer: takes the next place
//
// If a place is counted twice in between, there is one connection too many. It must be evicted
// too, or nobody is let in any more.
func TestFullForGood(t *testing.T) {
	tr := newTracker(t, Policy{IdleTimeout: time.Hour}, nil)
	const most, newcomers = 1_000, 30_000
	check(t, tr.SetCapacity(Capacity{MaxConns: most}))
	hooks := plainHooks()
	for range newcomers {
		c, come := new(Conn), time.Now()
		for err := tr.Track(c, c, hooks); err != nil; err = tr.Track(c, c, hooks) {
			if time.Since(come) > 30*time.Second {
				t.Fatalf("%v; there are %d of %d", err, tr.Stats().Live, most)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// TestEvidenceAloneSparesNobody: the kernel knows of a byte later than the last stamp. The
// connection has been idle for long enough all the same, so it makes room, and the newcomer
// stays.
func TestEvidenceAloneSparesNobody(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		old := r.prober(func() SocketState { return SocketState{In: 500 * time.Millisecond} })
		r.wait(2 * time.Second)
		r.mustHold(Capacity{MaxConns: 1, MinIdle: 100 * time.Millisecond})
		late := r.peer()
		r.wait(50 * time.Millisecond)
		if st := r.Stats(); old.err() == nil || late.err() != nil || st.Evicted != 1 {
			t.Errorf("the idle one has ended by %v, the newcomer by %v: %+v", old.err(), late.err(), st)
		}
	})
}

// TestAllInUse has nobody who may be evicted, as Probe finds. So many are too many at most, and passes
// don't follow each other.
func TestAllInUse(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		var all []*peer
		for range 10 {
			all = append(all, r.prober(func() SocketState { return SocketState{Unread: true} }))
		}
		r.mustHold(Capacity{MaxConns: 10})
		passes := r.Stats().Passes
		for range 100 {
			_ = r.tryTrack(new(Conn), &peer{})
			r.wait(100 * time.Millisecond)
		}
		if st := r.Stats(); st.Live > 26 || st.Passes-passes > 2000 {
			t.Errorf("%d passes: %+v", st.Passes-passes, st)
		}
		for i := range all {
			if all[i].err() != nil {
				t.Errorf("%d: %v", i, all[i].err())
			}
		}
	})
}

// TestEvictsBesideABlockedLoop has newcomers while a loop is blocked. They are let in, but not
// forever in the places of connections of that loop.
func TestEvictsBesideABlockedLoop(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Hour}, &Options{Shards: 1}, true, func(r *rig) {
		const each = 200
		r.peers(each)
		r.driven(each)
		resume := r.block()
		r.mustHold(Capacity{MaxConns: 2 * each})
		r.wait(time.Second)
		for i := range 2 * each {
			if err := r.Tracker.Track(new(Conn), "newcomer", plainHooks()); err != nil {
				t.Fatalf("after %d: %v", i, err)
			}
			r.wait(50 * time.Millisecond)
		}
		if n := r.Stats().Live; n > 2*each+fewEvicting+1 {
			r.Errorf("%d live", n)
		}
		resume()
		r.wait(time.Second)
		for range 10 {
			_ = r.Tracker.Track(new(Conn), "newcomer", plainHooks())
			r.wait(time.Second)
		}
		if n := r.Stats().Live; n != 2*each {
			r.Errorf("%d live, when the loop has gone on", n)
		}
	})
}

// TestNoMoreThanTheBound opens connections as fast as it can, on many goroutines. The others end only in
// the next pass, or not at all because they are in use. There are never more than MaxConns, 16 and 1 %,
// and later no more than MaxConns.
func TestNoMoreThanTheBound(t *testing.T) {
	for _, shards := range []int{1, 64} {
		for _, most := range []int{1, 10, 1000} {
			for _, used := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					tr := newTracker(t, Policy{IdleTimeout: time.Hour}, &Options{Shards: shards})
					check(t, tr.SetCapacity(Capacity{MaxConns: most}))
					var unread atomic.Bool // what Probe finds of half of the connections
					unread.Store(used)
					hooks := &Hooks{Expire: func(any, *TimeoutError) {}, Probe: func(owner any, _ Reason) SocketState {
						return SocketState{Unread: unread.Load() && owner.(int)%2 == 0}
					}}
					var wg sync.WaitGroup
					var admitted, refused, highest atomic.Int64
					for g := range 4 {
						wg.Go(func() {
							for i := range 500 {
								switch err := tr.Track(new(Conn), g+i, hooks); {
								case err == nil:
									admitted.Add(1)
								case errors.Is(err, ErrFull):
									refused.Add(1)
								default:
									t.Error(err)
								}
								tr.room.mu.Lock() // nobody comes while the shards are added up
								highest.Store(max(highest.Load(), int64(tr.live())))
								tr.room.mu.Unlock()
								if i%20 == 0 {
									time.Sleep(time.Millisecond)
								}
							}
						})
					}
					wg.Wait()
					synctest.Wait()
					bound := int64(most + 16 + most/100)
					if n := highest.Load(); n > bound || admitted.Load() < int64(most) {
						t.Errorf("%d shards, MaxConns %d: up to %d were open, want at most %d; %d were admitted", shards, most, n, bound, admitted.Load())
					}
					st := tr.Stats()
					if st.Refused != uint64(refused.Load()) || st.Tracked != uint64(admitted.Load()) || st.Evicted != st.Tracked-st.Live {
						t.Errorf("%d refused, %d admitted: %+v", refused.Load(), admitted.Load(), st)
					}
					unread.Store(false)
					for range 100 {
						_ = tr.Track(new(Conn), 1, hooks)
						time.Sleep(time.Second)
					}
					if n := tr.Stats().Live; n != uint64(most) {
						t.Errorf("%d shards, MaxConns %d: %d are open when evictions have caught up", shards, most, n)
					}
				})
			}
		}
	}
}

// TestCapacityLowered evicts about the most idle ones, but none that may not be evicted.
func TestCapacityLowered(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: 24 * time.Hour}, nil, func(r *rig) {
		const n = 200
		vip := r.phaseOf(Policy{Name: "vip"})
		all := r.guests(n)
		exempt := all[:10]
		busy := all[10:20]
		r.do(func() {
			for i := range exempt {
				exempt[i].Enter(vip)
				busy[i].PauseRead()
			}
		})
		r.wait(time.Minute)
		r.do(func() {
			for _, g := range all[n-20:] {
				g.Touch()
			}
		})
		r.mustHold(Capacity{MaxConns: n / 2, MinIdle: 30 * time.Second, Exempt: []*Phase{vip}})
		r.wait(r.late())
		if st := r.Stats(); st.Live != n/2 || st.Evicted != n/2 {
			r.Errorf("lowered to %d: %+v", n/2, st)
		}
		stay := 0
		for i, g := range all {
			switch {
			case i < 20 || i >= n-20:
				if g.err() != nil {
					r.Errorf("guest %d: %v", i, g.err())
				}
			case g.err() == nil:
				if stay++; i < n/3 { // by the age of the sample
					r.Errorf("guest %d has stayed, and was idle for very long", i)
				}
			}
		}
		if stay != n/2-40 {
			r.Errorf("%d have stayed", stay)
		}
		r.mustHold(Capacity{MaxConns: 1, MinIdle: 30 * time.Second, Exempt: []*Phase{vip}})
		r.wait(time.Hour)
		if n := r.Stats().Live; n != 40 {
			r.Errorf("%d are left, want the 20 that may not be evicted and the 20 that had been used just before", n)
		}
		if err := r.tryTrack(new(Conn), &peer{}); !errors.Is(err, ErrFull) {
			r.Errorf("there are too many: %v", err)
		}
		r.wait(r.late())
		if n := r.Stats().Live; n != 32 {
			r.Errorf("%d are left after a newcomer was refused, want eight less", n)
		}
	})
}

// TestCapacityLoweredBesideABlockedLoop lowers a capacity when the loop is blocked. The visit evicts
// others, and leaves only itself behind at the loop.
func TestCapacityLoweredBesideABlockedLoop(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: 24 * time.Hour}, nil, true, func(r *rig) {
		r.peers(100)
		r.wait(time.Second)
		r.driven(200)
		r.wait(time.Second)
		resume := r.block()
		for _, most := range []int{200, 150} {
			r.mustHold(Capacity{MaxConns: most})
			r.wait(5 * time.Second)
		}
		if n := len(r.shard.visits.all); r.Stats().Live > 200 || n > 2 {
			r.Errorf("beside a blocked loop, %d visits wait for it: %+v", n, r.Stats())
		}
		resume()
		r.wait(5 * time.Second)
		if n := r.Stats().Live; n != 150 {
			r.Errorf("when the loop has gone on, %d are live", n)
		}
	})
}

// TestCapacityLiftedInProbe lifts the capacity while it is decided whether a connection is evicted.
func TestCapacityLiftedInProbe(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.prober(func() SocketState { r.mustHold(Capacity{}); return SocketState{} })
		r.wait(time.Second)
		r.mustHold(Capacity{MaxConns: 1})
		r.peer()
		r.wait(time.Second)
		if st := r.Stats(); st.Evicted != 0 || st.Live != 2 {
			r.Errorf("%+v", st)
		}
	})
}

// answerer tracks a peer that answers each ping.
func (r *rig) answerer() *peer {
	p := &peer{}
	p.ping = func() error {
		p.Sent(2)
		time.AfterFunc(time.Second/10, func() { r.do(func() { p.Received(2) }) })
		return nil
	}
	return r.with(p)
}

var every20s = Heartbeat{Interval: 20 * time.Second, Timeout: 5 * time.Second}

// TestEvictionBesidePings has the one make room who uses its connection less.
func TestEvictionBesidePings(t *testing.T) {
	onBoth(t, Policy{Heartbeat: every20s, ExplicitUse: true}, nil, func(r *rig) {
		r.mustHold(Capacity{MaxConns: 2, MinIdle: time.Minute})
		alice, bob := r.answerer(), r.answerer()
		r.wait(133 * time.Second)
		r.do(bob.Use)
		r.wait(13 * time.Second)
		r.answerer()
		r.wait(time.Second)
		if alice.Live() || !bob.Live() {
			r.Errorf("alice live: %v, bob live: %v", alice.Live(), bob.Live())
		}
	})
}

// TestMinIdleBesidePings: if pings count as use, nobody is idle for longer than the Interval.
func TestMinIdleBesidePings(t *testing.T) {
	onDriver(t, Policy{Heartbeat: every20s}, nil, func(r *rig) {
		err := r.SetCapacity(Capacity{MaxConns: 2, MinIdle: 20 * time.Second})
		if err == nil || !strings.Contains(err.Error(), "Capacity.MinIdle is 20s, but connections are pinged every 20s") {
			r.Errorf("got %v", err)
		}
		for _, c := range []Capacity{{MinIdle: 19 * time.Second}, {MinIdle: time.Hour, Exempt: []*Phase{r.Initial()}}} {
			if err := r.SetCapacity(c); err != nil {
				r.Errorf("%+v: %v", c, err)
			}
			if got, ok := r.Capacity(); !ok || got.MinIdle != c.MinIdle || len(got.Exempt) != len(c.Exempt) {
				r.Errorf("the capacity is %+v, want %+v", got, c)
			}
		}
	})
}

// TestTwoTracksOfOneConn has two goroutines track the same Conn. One of them succeeds.
func TestTwoTracksOfOneConn(t *testing.T) {
	tr := newTracker(t, Policy{IdleTimeout: time.Hour}, &Options{Shards: 2})
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
		r.driven(4)
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
		check(t, err)
		check(t, tr.SetCapacity(before))
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
