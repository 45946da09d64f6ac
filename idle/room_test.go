package idle

import (
	"errors"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

// TestLiftedCapacityEvictsNobody lifts or raises a capacity while those that were too many are
// being evicted.
func TestLiftedCapacityEvictsNobody(t *testing.T) {
	for _, c := range []Capacity{{}, {MaxConns: 1000}, {PerKey: 5}} {
		onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
			r.guests(100)
			r.wait(time.Second)
			r.mustHold(Capacity{MaxConns: 10})
			r.mustHold(c)
			r.wait(time.Minute)
			if st := r.Stats(); st.Evicted != 0 {
				t.Errorf("%d evicted by a capacity that was changed to %+v at once", st.Evicted, c)
			}
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
		if st := r.Stats(); st.Live != 10 || st.Evicted != 10 {
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

// TestOneInUseIsPassedOver has connections that Probe finds in use when their turn comes.
func TestOneInUseIsPassedOver(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := make([]laden, 10)
		for i := range all {
			all[i].unread = i < 4
			r.track(&all[i].conn, &all[i])
			r.wait(time.Second)
		}
		r.mustHold(Capacity{MaxConns: 10})
		late := &guest{}
		r.track(&late.conn, late)
		r.wait(time.Second)
		if st := r.Stats(); st.Live != 10 || st.Evicted != 1 {
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

// TestAllInUse has nobody who may be evicted, as Probe finds. There is one too many at most,
// and no pass after the other.
func TestAllInUse(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := make([]laden, 10)
		for i := range all {
			all[i].unread = true
			r.track(&all[i].conn, &all[i])
		}
		r.mustHold(Capacity{MaxConns: 10, MinIdle: 50 * time.Millisecond})
		r.wait(time.Minute)
		passes := r.Stats().Passes
		late := make([]guest, 20)
		for i := range late {
			_ = r.tryTrack(&late[i].conn, &late[i])
		}
		r.wait(40 * time.Millisecond)
		if st := r.Stats(); st.Live > 20 || st.Evicted > 0 {
			t.Errorf("%+v", st)
		}
		r.wait(10 * time.Second)
		if st := r.Stats(); st.Live > 10 || st.Passes-passes > 20_000 {
			t.Errorf("%d passes: %+v", st.Passes-passes, st)
		}
	})
}

// TestEvictsBesideABlockedLoop has newcomers while a loop is blocked. They are let in, but not
// forever in the places of connections of that loop.
func TestEvictsBesideABlockedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := New(Policy{IdleTimeout: time.Hour}, &Options{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		stuck, err := tr.NewShard(func(func()) error { return nil }) // no pass is ever run
		if err != nil {
			t.Fatal(err)
		}
		const each = 200
		conns := make([]guest, 4*each)
		for i := range conns[:2*each] {
			s := stuck
			if i%2 == 0 {
				s = tr.own[0]
			}
			if err := s.Track(&conns[i].conn, &conns[i], hooksOf(&conns[i])); err != nil {
				t.Fatal(err)
			}
		}
		if err := tr.SetCapacity(Capacity{MaxConns: 2 * each}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for i := range conns[2*each:] {
			g := &conns[2*each+i]
			if err := tr.Track(&g.conn, g, hooksOf(g)); err != nil {
				t.Fatalf("after %d: %v", i, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if st := tr.Stats(); st.Live > 2*each+each/shareEvicting+fewEvicting+1 {
			t.Errorf("%d live", st.Live)
		}
	})
}

// TestKeysAreKept sets the same capacity again and again. What is counted stays counted.
func TestKeysAreKept(t *testing.T) {
	for name, key := range map[string]func(any) string{"default": nil, "custom": func(any) string { return "key" }} {
		synctest.Test(t, func(t *testing.T) {
			tr, err := New(Policy{IdleTimeout: time.Hour}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			in := 0
			for range 20 {
				if err := tr.SetCapacity(Capacity{PerKey: 10, Key: key}); err != nil {
					t.Fatal(err)
				}
				for range 20 {
					c := &caller{from: "192.0.2.1:1"}
					if tr.Track(&c.conn, c, hooksOf(c)) == nil {
						in++
					}
				}
			}
			if in != 10 {
				t.Errorf("%s: %d of a key for which 10 are allowed", name, in)
			}
		})
	}
}

// TestKeysOfThoseThatAreThere counts connections that are being tracked when PerKey is set,
// and one whose OnTimeout is running.
func TestKeysOfThoseThatAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := New(Policy{IdleTimeout: time.Minute}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		set := func() {
			if err := tr.SetCapacity(Capacity{PerKey: 2, Key: func(any) string { return "key" }}); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		answer := make(chan bool)
		asked := &guest{}
		h := *hooksOf(asked)
		h.OnTimeout = func(any, *TimeoutError) bool { return <-answer }
		if err := tr.Track(&asked.conn, asked, &h); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		// Like Track, with SetCapacity between its steps.
		s, half := tr.own[0], &guest{}
		half.conn.state.start(0)
		half.conn.shard, half.conn.owner, half.conn.hooks = s, half, hooksOf(half)
		half.conn.start(s.stamp())
		half.conn.phase.Store(tr.phase)
		if err := s.admit(&half.conn, half, false); err != nil {
			t.Fatal(err)
		}
		set()
		if err := s.enroll(&half.conn, nil, false); err != nil {
			t.Fatal(err)
		}
		g := &guest{}
		if err := tr.Track(&g.conn, g, hooksOf(g)); !errors.Is(err, ErrFull) {
			t.Errorf("a third one: %v", err)
		}
		answer <- true
	})
}

// TestNewConnectionsInATime limits how many come, in all and by key, and tells by which limit
// they were refused.
func TestNewConnectionsInATime(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		comes := func(from string) bool {
			c := &caller{from: from}
			err := r.tryTrack(&c.conn, c)
			if err != nil && !errors.Is(err, ErrFull) {
				r.Error(err)
			}
			return err == nil
		}
		in := func(from string, n int) (in int) {
			for range n {
				if comes(from) {
					in++
				}
			}
			return in
		}
		limits := Capacity{New: Quota{PerSecond: 10, Burst: 20}, NewPerKey: Quota{PerSecond: 2}}
		r.mustHold(limits)
		if n := in("192.0.2.1:1", 50); n != 2 {
			t.Errorf("%d of an address came at once", n)
		}
		r.mustHold(limits) // what was used stays used
		if n := in("192.0.2.1:1", 50); n != 0 {
			t.Errorf("%d more came when the same limits were set", n)
		}
		r.wait(time.Second)
		if n := in("192.0.2.1:1", 50); n != 2 {
			t.Errorf("%d of an address came in a second", n)
		}
		r.mustHold(limits)
		all := 0
		for i := range 50 {
			all += in(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}).String()+":1", 1)
		}
		if all != 18 {
			t.Errorf("%d came at once, want what is left of 20", all)
		}
		r.mustHold(Capacity{PerKey: 1})
		r.wait(time.Second)
		in("192.0.2.1:1", 3)
		if st := r.Stats(); st.RefusedRate != 48+50+48+32 || st.RefusedKey != 3 || st.Refused != st.RefusedRate+3 || st.Live != 22 {
			t.Errorf("%d live, %d refused, %d by rate, %d by key", st.Live, st.Refused, st.RefusedRate, st.RefusedKey)
		}
	})
}

// TestQuotasAreForgotten has many keys that come once.
func TestQuotasAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quotas{Quota: Quota{PerSecond: 10}, of: map[string]*rate.Limiter{}}
		for i := range 100_000 {
			if !q.allow(strconv.Itoa(i)) {
				t.Fatal("refused")
			}
			time.Sleep(time.Millisecond)
		}
		if len(q.of) > 2*fewQuotas {
			t.Errorf("%d are kept", len(q.of))
		}
	})
}

// TestKeyReplacedDuringTrack replaces Key while Track calls it. The connection counts by the new
// Key.
func TestKeyReplacedDuringTrack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := New(Policy{IdleTimeout: time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		set := func(key func(any) string) {
			if err := tr.SetCapacity(Capacity{PerKey: 1, Key: key}); err != nil {
				t.Error(err)
			}
		}
		set(func(any) string {
			set(func(any) string { return "new" })
			time.Sleep(time.Second) // the walk that counts has been here
			return "old"
		})
		var first, second guest
		if err := tr.Track(&first.conn, &first, hooksOf(&first)); err != nil {
			t.Fatal(err)
		}
		if err := tr.Track(&second.conn, &second, hooksOf(&second)); !errors.Is(err, ErrFull) {
			t.Errorf("the second of a key that may have one: %v", err)
		}
		first.conn.Stop()
		if keys := tr.keys.Load(); len(keys.of) > 0 || len(keys.count) > 0 {
			t.Errorf("left: %v, %v", keys.of, keys.count)
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
