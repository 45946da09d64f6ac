package idle

import (
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"strings"
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
		r.mustHold(Capacity{})
		r.guests(3)
		r.mustHold(Capacity{MaxConns: 3})
		r.wait(2 * time.Second)
		if st := r.Stats(); st.Live > 4 {
			t.Errorf("after the capacity was lowered: %+v", st)
		}
	})
}

// TestEvictsWhenGraceIsOver has more connections than Most while none may be evicted, and
// no newcomer that would have anybody look again.
func TestEvictsWhenGraceIsOver(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(10)
		r.mustHold(Capacity{MaxConns: 7, MinIdle: 10 * time.Second})
		r.wait(9 * time.Second)
		if st := r.Stats(); st.Evicted != 0 {
			t.Errorf("within the grace: %+v", st)
		}
		r.do(all[0].conn.Touch)
		r.wait(2 * time.Second)
		if st := r.Stats(); st.Evicted != 3 || st.Live != 7 || all[0].err != nil {
			t.Errorf("after the grace: %+v, %v", st, all[0].err)
		}
	})
}

// TestRaisedCapacityEvictsNobody raises a capacity that waits for the grace to be over.
func TestRaisedCapacityEvictsNobody(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.guests(10)
		r.mustHold(Capacity{MaxConns: 7, MinIdle: 10 * time.Second})
		r.wait(time.Second)
		r.mustHold(Capacity{MaxConns: 10})
		r.wait(time.Minute)
		if st := r.Stats(); st.Evicted != 0 {
			t.Errorf("%+v", st)
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

// A caller is a guest with an address.
type caller struct {
	guest
	from string
}

func (c *caller) RemoteAddr() net.Addr {
	addr, err := net.ResolveTCPAddr("tcp", c.from)
	if err != nil {
		panic(err)
	}
	return addr
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

// TestAdopt has connections that are served already. They are let in, and count.
func TestAdopt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := New(Policy{IdleTimeout: time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		for _, c := range []Capacity{{MaxConns: 1, MinIdle: time.Hour}, {PerKey: 1, Key: func(any) string { return "key" }}} {
			if err := tr.SetCapacity(c); err != nil {
				t.Fatal(err)
			}
			var all [3]guest
			for i := range all[:2] {
				if err := tr.Adopt(&all[i].conn, &all[i], hooksOf(&all[i])); err != nil {
					t.Error(err)
				}
			}
			if err := tr.Track(&all[2].conn, &all[2], hooksOf(&all[2])); !errors.Is(err, ErrFull) {
				t.Errorf("%+v: %v", c, err)
			}
			if st := tr.Stats(); st.Live != 2 || st.Tracked != 0 {
				t.Errorf("%+v", st)
			}
			all[0].conn.Stop()
			all[1].conn.Release()
		}
		if st := tr.Stats(); st.Live != 0 || st.Tracked != 0 || st.Adopted != 4 || st.Closed != 2 || st.Released != 2 || st.Lifetime.Count() != 2 {
			t.Errorf("%+v", st)
		}
	})
}

// TestRekey has keys that are known only after Track.
func TestRekey(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		r.mustHold(Capacity{PerKey: 2, Key: func(owner any) string { return owner.(*caller).from }})
		var all [3]caller
		for i := range all {
			r.track(&all[i].conn, &all[i])
		}
		r.wait(time.Second) // the walk of SetCapacity is over
		for i := range all {
			all[i].from = "same"
			all[i].conn.Rekey()
			all[i].conn.Rekey() // counts once
		}
		r.wait(time.Second)
		if !all[0].conn.Live() || !all[1].conn.Live() || all[2].conn.Live() {
			t.Error("not the third was ended")
		}
		if st := r.Stats(); st.Evicted != 1 || len(st.Causes) > 0 {
			t.Errorf("%+v", st)
		}
		all[2].conn.Rekey() // has ended
		r.do(func() { all[0].conn.Stop() })
		late := caller{from: "same"}
		r.track(&late.conn, &late)
	})
}

func TestPerKey(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		call := func(from string) (*caller, error) {
			c := &caller{from: from}
			return c, r.tryTrack(&c.conn, c)
		}
		before, err := call("10.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		r.mustHold(Capacity{PerKey: 2})
		r.wait(time.Second)
		second, err := call("10.0.0.1:2")
		if err != nil {
			t.Error(err)
		}
		if _, err := call("[::ffff:10.0.0.1]:3"); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "2 connections of 10.0.0.1") {
			t.Errorf("the third: %v", err)
		}
		if _, err := call("10.0.0.2:1"); err != nil {
			t.Error(err)
		}
		r.do(func() { before.conn.Stop() })
		third, err := call("10.0.0.1:4")
		if err != nil {
			t.Error(err)
		}
		second.conn.End("test")
		r.wait(time.Second)
		if _, err := call("10.0.0.1:5"); err != nil {
			t.Errorf("after one was ended: %v", err)
		}
		if _, err := call("10.0.0.1:6"); !errors.Is(err, ErrFull) {
			t.Errorf("%v", err)
		}
		for _, from := range []string{"[2001:db8::1]:1", "[2001:db8::2:1]:1"} {
			if _, err := call(from); err != nil {
				t.Error(err)
			}
		}
		if _, err := call("[2001:db8::3:3]:1"); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "2001:db8::/64") {
			t.Errorf("a third of the /64: %v", err)
		}
		if st := r.Stats(); st.Refused != 3 {
			t.Errorf("%+v", st)
		}
		_ = third
		keys := r.keys.Load()
		r.closeShard()
		r.Tracker.Close()
		if len(keys.of) > 0 || len(keys.count) > 0 {
			t.Errorf("left: %v, %v", keys.of, keys.count)
		}
	})
}

// TestPerKeyHoldsAtOnce: as soon as SetCapacity has returned, the connections that are there count by
// their key, by a new Key too.
func TestPerKeyHoldsAtOnce(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Hour}, &Options{Shards: 4}, func(r *rig) {
		const many = 1000
		for range many {
			c := &caller{from: "10.0.0.1:1"}
			r.track(&c.conn, c)
		}
		for _, key := range []func(any) string{nil, func(any) string { return "all" }, ByAddress} {
			r.mustHold(Capacity{PerKey: many, Key: key})
			late := &caller{from: "10.0.0.1:2"}
			if err := r.tryTrack(&late.conn, late); !errors.Is(err, ErrFull) {
				t.Errorf("one more than PerKey: %v", err)
			}
			late.conn.Stop()
		}
	})
}

func TestKeyThatPanics(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Hour}, &Options{Logger: slog.New(slog.DiscardHandler)}, func(r *rig) {
		r.mustHold(Capacity{PerKey: 1, Key: func(any) string { panic("no key") }})
		r.wait(time.Second)
		r.guests(3)
		if st := r.Stats(); st.Panics != 3 || st.Live != 3 {
			t.Errorf("%+v", st)
		}
	})
}

func TestCapacityOfNonsense(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		for want, c := range map[string]Capacity{
			"MaxConns is -1":      {MaxConns: -1},
			"PerKey is -2":        {PerKey: -2},
			"PerKey is 0":         {Key: ByAddress},
			"New.PerSecond is -1": {New: Quota{PerSecond: -1}},
			"New.PerSecond is Na": {New: Quota{PerSecond: math.NaN()}},
			"NewPerKey.Burst is 3, but PerSecond is 0": {NewPerKey: Quota{Burst: 3}},
			"NewPerKey.Burst is -":                     {NewPerKey: Quota{Burst: -1, PerSecond: 1}},
			"Capacity.MinIdle is -":                    {MaxConns: 1, MinIdle: -1},
			"Exempt[1] is nil":                         {MaxConns: 1, Exempt: []*Phase{r.phase, nil}},
		} {
			if err := r.SetCapacity(c); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		if r.room.limit.Load() != nil {
			t.Error("something was changed")
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
	used := Policy{Heartbeat: Heartbeat{Interval: 10 * time.Second, Timeout: time.Second, CountsAsUse: true}}
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
