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
	if err := r.SetCapacity(c); err != nil {
		r.Fatal(err)
	}
}

// TestEvictsFromTheMostIdle opens connections beyond the capacity, while others are
// active, and holds each eviction against all idle times.
func TestEvictsFromTheMostIdle(t *testing.T) {
	const most, grace = 2000, 5 * time.Second
	rounds := 3000
	if testing.Short() {
		rounds = 1000
	}
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		rng := rand.New(rand.NewPCG(1, 2))
		active := map[*guest]time.Time{}
		var evicted []*guest
		allMoreIdle := 0
		for range most {
			g := &guest{}
			r.track(&g.conn, g)
			active[g] = time.Now()
		}
		r.mustHold(Capacity{MaxConns: most, MinIdle: grace})
		for range rounds {
			synctest.Wait()         // evictions are under way
			for g := range active { // a few at random
				if g.err == nil {
					r.do(g.conn.Touch)
					active[g] = time.Now()
				}
				if rng.IntN(3) == 0 {
					break
				}
			}
			r.wait(time.Duration(rng.IntN(30)) * time.Millisecond)
			for g := range active {
				if g.err != nil {
					evicted = append(evicted, g)
				}
			}
			for _, g := range evicted {
				if active[g].IsZero() {
					continue
				}
				if idle := g.endedAt.Sub(active[g]); idle < grace-r.opts.Tick || g.err.Reason != ReasonEvict {
					t.Fatalf("%v, idle for %v", g.err, idle)
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
			g := &guest{}
			if err := r.tryTrack(&g.conn, g); err != nil {
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

// A replaced is a peer in whose place another one comes as soon as it ends.
type replaced struct {
	peer
	next func()
}

func (p *replaced) Expire(err *TimeoutError) {
	p.peer.Expire(err)
	p.next()
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
			p := &replaced{next: come}
			r.track(&p.Conn, p)
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

func TestRefusesWhenNoneCanBeEvicted(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		vip := r.phaseOf(Policy{Name: "vip"})
		busy := r.phaseOf(Policy{Name: "busy", NoInterrupt: true})
		all := r.guests(3)
		r.do(func() {
			all[0].conn.Enter(vip)
			all[1].conn.Enter(busy)
			all[2].conn.PauseRead()
		})
		r.mustHold(Capacity{MaxConns: 3, MinIdle: time.Second, Exempt: []*Phase{vip}})
		r.wait(time.Minute)
		tries := func(want error) {
			t.Helper()
			for range 3 { // the first may be let in before it is known that none can be evicted
				g := &guest{}
				if err := r.tryTrack(&g.conn, g); err == nil {
					r.wait(50 * time.Millisecond)
					r.do(func() { g.conn.Stop() })
				} else if !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				} else {
					return
				}
			}
			t.Errorf("not refused")
		}
		tries(ErrFull)
		if st := r.Stats(); st.Refused == 0 || st.Evicted > 0 || st.Live != 3 {
			t.Errorf("%+v", st)
		}
		r.do(func() { all[1].conn.Enter(r.phase) }) // counts as no activity
		r.wait(2 * time.Second)
		r.track(&(&guest{}).conn, &guest{})
		r.wait(time.Second)
		if all[1].err == nil || all[1].err.Reason != ReasonEvict {
			t.Errorf("%v", all[1].err)
		}
	})
}

func TestMakeRoom(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(10)
		if n := r.EvictIdle(1); n != 0 {
			t.Errorf("%d evicted without a capacity", n)
		}
		r.mustHold(Capacity{MinIdle: time.Millisecond})
		r.wait(time.Second)
		for range 3 {
			r.EvictIdle(1)
			r.wait(time.Second)
		}
		if st := r.Stats(); st.Evicted != 3 || all[0].err == nil || all[3].err != nil {
			t.Errorf("%+v", st)
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

func TestCapacityOfNonsense(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		for want, c := range map[string]Capacity{
			"MaxConns is -1":        {MaxConns: -1},
			"Capacity.MinIdle is -": {MaxConns: 1, MinIdle: -1},
			"Exempt[1] is nil":      {MaxConns: 1, Exempt: []*Phase{r.phase, nil}},
		} {
			if err := r.SetCapacity(c); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		if c, ok := r.Capacity(); ok {
			t.Errorf("something was changed: %+v", c)
		}
		r.Tracker.Close()
		if err := r.SetCapacity(Capacity{MaxConns: 1}); err != ErrClosed {
			t.Errorf("%v", err)
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
	tr, err := New(Policy{IdleTimeout: time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	most, newcomers := 10_000, 100_000
	if raceEnabled && testing.Short() {
		most, newcomers = 1_000, 30_000
	}
	if err := tr.SetCapacity(Capacity{MaxConns: most}); err != nil {
		t.Fatal(err)
	}
	hooks := &Hooks{Expire: func(any, *TimeoutError) {}}
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

// TestPolicyBesideCapacity: SetPolicy refuses a policy of new connections beside which
// SetCapacity would refuse the capacity. Other phases may have it.
func TestPolicyBesideCapacity(t *testing.T) {
	used := Policy{Heartbeat: Heartbeat{Interval: 10 * time.Second, Timeout: time.Second}}
	capacity := Capacity{MaxConns: 10, MinIdle: time.Minute}
	tr, err := New(used, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if err := tr.SetCapacity(capacity); err == nil {
		t.Error("SetCapacity accepts it")
	}
	if err := tr.SetPolicy(Policy{IdleTimeout: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := tr.SetCapacity(capacity); err != nil {
		t.Fatal(err)
	}
	if err := tr.SetPolicy(used); err == nil || !strings.Contains(err.Error(), "Capacity.MinIdle is 1m0s") || tr.Policy().IdleTimeout != time.Hour {
		t.Errorf("SetPolicy: %v; the policy is %+v", err, tr.Policy())
	}
	other, err := tr.Phase(Policy{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.SetPolicy(used); err != nil {
		t.Errorf("SetPolicy of another phase: %v", err)
	}
	capacity.Exempt = []*Phase{tr.Initial()}
	if err := tr.SetCapacity(capacity); err != nil {
		t.Fatal(err)
	}
	if err := tr.SetPolicy(used); err != nil {
		t.Errorf("SetPolicy, as none may be evicted anyway: %v", err)
	}
}

// TestLiftedCapacityEvictsNobody lifts or raises a capacity while those that were too many are
// being evicted. The test may be held up between the two calls, so that some are evicted rightly. Then it tries again.
func TestLiftedCapacityEvictsNobody(t *testing.T) {
	for _, c := range []Capacity{{}, {MaxConns: 1000}} {
		onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
			for range 8 {
				before := r.Stats().Evicted
				r.guests(100)
				r.wait(time.Second)
				r.mustHold(Capacity{MaxConns: 10})
				r.mustHold(c)
				r.wait(time.Minute)
				if r.Stats().Evicted == before {
					return
				}
			}
			t.Errorf("%d evicted by capacities that were changed to %+v at once", r.Stats().Evicted, c)
		})
	}
}

// TestMostIsHeld has exactly so many connections, whether they may be evicted or not.
func TestMostIsHeld(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.mustHold(Capacity{MaxConns: 10, MinIdle: time.Minute})
		all := make([]guest, 30)
		for i := range all[:20] {
			if err := r.tryTrack(&all[i].conn, &all[i]); (err != nil) != (i >= 10) || err != nil && !errors.Is(err, ErrFull) {
				t.Errorf("connection %d: %v", i, err)
			}
		}
		if st := r.Stats(); st.Live != 10 || st.Refused != 10 {
			t.Errorf("%+v", st)
		}
		r.wait(2 * time.Minute)
		for i := range all[20:] { // a herd at once: each evicts one
			r.track(&all[20+i].conn, &all[20+i])
		}
		r.wait(time.Second)
		if n := r.Stats().Live; n < 10 || n > 11 { // two may have had the same one evicted
			t.Errorf("%d live", n)
		}
		r.wait(2 * time.Minute)
		r.track(&(&guest{}).conn, &guest{})
		r.wait(time.Second)
		if st := r.Stats(); st.Live != 10 || st.Evicted != 11 {
			t.Errorf("%+v", st)
		}
		for i := range all[:10] {
			if all[i].err == nil {
				t.Errorf("%d is still there, and one that came later is not", i)
			}
		}
	})
}

// A laden is a guest that may have input that nobody reads.
type laden struct {
	guest
	unread bool
}

func (l *laden) Examine() SocketState { return SocketState{Unread: l.unread} }

// TestOneInUseIsPassedOver has connections that Probe finds in use when they are to be evicted. There is
// one too many then, until the next newcomers have others evicted.
func TestOneInUseIsPassedOver(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := make([]laden, 10)
		for i := range all {
			all[i].unread = i < 4
			r.track(&all[i].conn, &all[i])
			r.wait(time.Second)
		}
		r.mustHold(Capacity{MaxConns: 10})
		for range 24 {
			if err := r.tryTrack(&(&guest{}).conn, &guest{}); err != nil && !errors.Is(err, ErrFull) {
				t.Error(err)
			}
			r.wait(time.Second)
			if st := r.Stats(); st.Live > 14 {
				t.Errorf("%+v", st)
			}
		}
		for i := range all[:4] {
			if all[i].err != nil {
				t.Errorf("%d was in use: %v", i, all[i].err)
			}
		}
		if st := r.Stats(); st.Live != 10 || st.Evicted < 6 {
			t.Errorf("%+v", st)
		}
	})
}

// A lagging guest has had a byte that only the kernel knows of, half a second ago.
type lagging struct{ guest }

func (*lagging) Examine() SocketState { return SocketState{In: 500 * time.Millisecond} }

// TestEvidenceAloneSparesNobody: the kernel knows of a byte later than the last stamp. The
// connection has been idle for long enough all the same, so it makes room, and the newcomer
// stays.
func TestEvidenceAloneSparesNobody(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		old := &lagging{}
		r.track(&old.conn, old)
		r.wait(2 * time.Second)
		r.mustHold(Capacity{MaxConns: 1, MinIdle: 100 * time.Millisecond})
		late := &guest{}
		r.track(&late.conn, late)
		r.wait(50 * time.Millisecond)
		if st := r.Stats(); old.err == nil || late.err != nil || st.Evicted != 1 {
			t.Errorf("the idle one has ended by %v, the newcomer by %v: %+v", old.err, late.err, st)
		}
	})
}

// TestAllInUse has nobody who may be evicted, as Probe finds. So many are too many at most, and passes
// don't follow each other.
func TestAllInUse(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := make([]laden, 10)
		for i := range all {
			all[i].unread = true
			r.track(&all[i].conn, &all[i])
		}
		r.mustHold(Capacity{MaxConns: 10})
		passes := r.Stats().Passes
		for range 100 {
			_ = r.tryTrack(&(&guest{}).conn, &guest{})
			r.wait(100 * time.Millisecond)
		}
		if st := r.Stats(); st.Live > 26 || st.Passes-passes > 2000 {
			t.Errorf("%d passes: %+v", st.Passes-passes, st)
		}
		for i := range all {
			if all[i].err != nil {
				t.Errorf("%d: %v", i, all[i].err)
			}
		}
	})
}

// TestEvictsBesideABlockedLoop has newcomers while a loop is blocked. They are let in, but not
// forever in the places of connections of that loop.
func TestEvictsBesideABlockedLoop(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Hour}, &Options{Shards: 1}, true, func(r *rig) {
		const each = 200
		for range each {
			r.peer()
			if err := r.Tracker.Track(new(Conn), "driven", &Hooks{Expire: func(any, *TimeoutError) {}}); err != nil {
				r.Fatal(err)
			}
		}
		resume := r.block()
		r.mustHold(Capacity{MaxConns: 2 * each})
		r.wait(time.Second)
		for i := range 2 * each {
			if err := r.Tracker.Track(new(Conn), "newcomer", &Hooks{Expire: func(any, *TimeoutError) {}}); err != nil {
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
			_ = r.Tracker.Track(new(Conn), "newcomer", &Hooks{Expire: func(any, *TimeoutError) {}})
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
					tr, err := New(Policy{IdleTimeout: time.Hour}, &Options{Shards: shards})
					if err != nil {
						t.Fatal(err)
					}
					defer tr.Close()
					if err := tr.SetCapacity(Capacity{MaxConns: most}); err != nil {
						t.Fatal(err)
					}
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
				exempt[i].conn.Enter(vip)
				busy[i].conn.PauseRead()
			}
		})
		r.wait(time.Minute)
		r.do(func() {
			for _, g := range all[n-20:] {
				g.conn.Touch()
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
				if g.err != nil {
					r.Errorf("guest %d: %v", i, g.err)
				}
			case g.err == nil:
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
		if err := r.tryTrack(&(&guest{}).conn, &guest{}); !errors.Is(err, ErrFull) {
			r.Errorf("there are too many: %v", err)
		}
		r.wait(r.late())
		if n := r.Stats().Live; n != 32 {
			r.Errorf("%d are left after a newcomer was refused, want eight less", n)
		}
	})
}

// TestCapacityRaised: what was evicted by the lower one is all.
func TestCapacityRaised(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.guests(10)
		r.mustHold(Capacity{MaxConns: 7, MinIdle: 10 * time.Second})
		r.wait(time.Second)
		if err := r.tryTrack(&(&guest{}).conn, &guest{}); !errors.Is(err, ErrFull) {
			r.Error(err)
		}
		r.mustHold(Capacity{MaxConns: 12, MinIdle: time.Hour})
		r.guests(2)
		r.wait(time.Minute)
		if c, ok := r.Capacity(); !ok || c.MaxConns != 12 || c.MinIdle != time.Hour {
			r.Errorf("%+v, %v", c, ok)
		}
		if st := r.Stats(); st.Evicted != 0 || st.Refused != 1 || st.Live != 12 {
			r.Errorf("%+v", st)
		}
	})
}

// TestCapacityLoweredBesideABlockedLoop lowers a capacity when the loop is blocked. The visit evicts
// others, and leaves only itself behind at the loop.
func TestCapacityLoweredBesideABlockedLoop(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: 24 * time.Hour}, nil, true, func(r *rig) {
		r.peers(100)
		r.wait(time.Second)
		others := make([]peer, 200)
		for i := range others {
			if err := r.Tracker.Track(&others[i].Conn, &others[i], hooksOf(&others[i])); err != nil {
				r.Fatal(err)
			}
		}
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

// A lifter calls a function when it is probed.
type lifter struct {
	guest
	lift func()
}

func (l *lifter) Examine() SocketState { l.lift(); return SocketState{} }

// TestCapacityLiftedInProbe lifts the capacity while it is decided whether a connection is evicted.
func TestCapacityLiftedInProbe(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		l := &lifter{lift: func() { r.mustHold(Capacity{}) }}
		r.track(&l.conn, l)
		r.wait(time.Second)
		r.mustHold(Capacity{MaxConns: 1})
		late := &guest{}
		r.track(&late.conn, late)
		r.wait(time.Second)
		if st := r.Stats(); st.Evicted != 0 || st.Live != 2 {
			r.Errorf("%+v", st)
		}
	})
}
