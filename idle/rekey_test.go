package idle

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A lateKey is an owner whose key becomes known while Track runs: the first call of Key has
// another goroutine call Rekey, as idlenet does behind the PROXY protocol, and takes a second.
type lateKey struct {
	conn  Conn
	t     *testing.T
	asked bool
}

func (o *lateKey) key() string {
	if o.asked {
		return "same"
	}
	o.asked = true
	go o.conn.Rekey()
	time.Sleep(time.Second)
	o.conn.End("before Track has admitted it") // no effect
	if o.conn.Live() {
		o.t.Error("the connection is live before Track has admitted it")
	}
	return ""
}

func keyOfLate(owner any) string {
	if o, ok := owner.(*lateKey); ok {
		return o.key()
	}
	return ""
}

// TestRekeyWhileTrackRefuses calls Rekey of connections that Track then refuses. They must not
// count as ended, or the tracker has fewer connections than are open.
func TestRekeyWhileTrackRefuses(t *testing.T) {
	for name, c := range map[string]Capacity{
		"MaxConns": {MaxConns: 2, MinIdle: time.Hour, PerKey: 1, Key: keyOfLate},
		"New":      {New: Quota{PerSecond: 0.001, Burst: 2}, PerKey: 1, Key: keyOfLate},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr, err := New(Policy{IdleTimeout: time.Hour}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer tr.Close()
				if err := tr.SetCapacity(c); err != nil {
					t.Fatal(err)
				}
				hooks := &Hooks{Expire: func(any, *TimeoutError) {}}
				var open Conn
				if err := tr.Track(&open, "open", hooks); err != nil {
					t.Fatal(err)
				}
				holder := &lateKey{t: t, asked: true} // has all that its key may have
				if err := tr.Track(&holder.conn, holder, hooks); err != nil {
					t.Fatal(err)
				}
				refused := &lateKey{t: t}
				if err := tr.Track(&refused.conn, refused, hooks); !errors.Is(err, ErrFull) {
					t.Fatalf("the third: %v", err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if st, k := tr.Stats(), tr.keys.Load(); st.Live != 2 || st.Evicted != 0 || len(k.of) != 1 || tr.room.taken.Load() != 2 {
					t.Errorf("2 are open; live %d, evicted %d, by key %d, places taken %d", int64(st.Live), st.Evicted, len(k.of), tr.room.taken.Load())
				}
				holder.conn.Stop()
				tr.CloseWhenEmpty()
				time.Sleep(time.Second)
				if tr.isClosed() {
					t.Error("CloseWhenEmpty has closed the tracker, though a connection is open")
				}
			})
		})
	}
}

// TestRekeyWhileTrackAdmits calls Rekey of connections that Track then admits. They count by
// the key that has become known, and the second is ended, as its key may have only one.
func TestRekeyWhileTrackAdmits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := New(Policy{IdleTimeout: time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		if err := tr.SetCapacity(Capacity{PerKey: 1, Key: keyOfLate}); err != nil {
			t.Fatal(err)
		}
		var ended []*TimeoutError
		hooks := &Hooks{Expire: func(_ any, err *TimeoutError) { ended = append(ended, err) }}
		first, second := &lateKey{t: t}, &lateKey{t: t}
		for _, o := range []*lateKey{first, second} {
			if err := tr.Track(&o.conn, o, hooks); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait() // ended is written by another goroutine
		if !first.conn.Live() || second.conn.Live() || len(ended) != 1 || ended[0].Reason != ReasonEvict || ended[0].Cause != string(errKey) {
			t.Errorf("first live: %v, second live: %v, ended: %v", first.conn.Live(), second.conn.Live(), ended)
		}
		if st := tr.Stats(); st.Live != 1 || st.Tracked != 2 || tr.room.taken.Load() != 1 {
			t.Errorf("live %d, tracked %d, places taken %d", int64(st.Live), st.Tracked, tr.room.taken.Load())
		}
	})
}

// A slowKey is an owner whose key becomes known, and that takes a second to tell it once.
type slowKey struct {
	conn  Conn
	known atomic.Bool
	slow  atomic.Bool
}

func keyOfSlow(owner any) string {
	o := owner.(*slowKey)
	known := o.known.Load()
	if o.slow.CompareAndSwap(true, false) {
		time.Sleep(time.Second)
	}
	if known {
		return "same"
	}
	return ""
}

// TestRekeyBesideAWalk has Rekey count a connection while the walk of SetCapacity is about to
// count it by the key that it had before.
func TestRekeyBesideAWalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := New(Policy{IdleTimeout: time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		hooks := &Hooks{Expire: func(any, *TimeoutError) {}}
		var first, second slowKey
		for range 2 { // the second time, those that are counted are counted again
			if err := tr.SetCapacity(Capacity{PerKey: 1, Key: keyOfSlow}); err != nil {
				t.Fatal(err)
			}
			if first.conn.Live() {
				break
			}
			if err := tr.Track(&first.conn, &first, hooks); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			first.slow.Store(true)
		}
		time.Sleep(time.Second / 2)
		first.known.Store(true)
		first.conn.Rekey()
		time.Sleep(time.Second)
		second.known.Store(true)
		if err := tr.Track(&second.conn, &second, hooks); !errors.Is(err, ErrFull) {
			t.Errorf("the second of a key that may have one: %v", err)
		}
	})
}

// TestRekeyRefusesInADrain refuses a connection that a Drain waits for, because its OnTimeout is
// running. It ends at once and once only, although OnTimeout keeps it, and the Drain counts it as
// gone.
func TestRekeyRefusesInADrain(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		if err := r.SetCapacity(Capacity{PerKey: 1, Key: keyOfLeaver}); err != nil {
			r.Fatal(err)
		}
		var holder, p leaver
		var o *Operation
		busy := r.phaseOf(Policy{NoInterrupt: true})
		hooks := hooksOf(&p)
		hooks.OnTimeout = func(any, *TimeoutError) bool {
			p.key = "same"
			var err error
			if o, err = r.Drain(Drain{}); err != nil {
				r.Error(err)
			}
			time.Sleep(time.Second)
			if p.Rekey() {
				r.Error("it may stay")
			}
			p.End("again")
			return true
		}
		r.do(func() {
			holder.key = "same"
			track := r.Tracker.Track
			if r.shard != nil {
				track = r.shard.Track
			}
			if err := errors.Join(track(&holder.Conn, &holder, hooksOf(&holder)), track(&p.Conn, &p, hooks)); err != nil {
				r.Error(err)
			}
			holder.Enter(busy) // the Drain waits for it
		})
		r.wait(10 * time.Second)
		if len(p.expired) != 1 || p.expired[0].Reason != ReasonEvict || len(p.reaped) != 1 {
			r.Errorf("expired: %v; reaped %d times", p.expired, len(p.reaped))
		}
		r.do(func() { holder.Stop() })
		<-o.Done()
		if pr, st := o.Progress(), r.Stats(); st.Live != 0 || st.Evicted != 1 || pr.Gone+pr.Ended != pr.Met || pr.Left != 0 {
			r.Errorf("%+v; %+v", pr, st)
		}
	})
}

// TestRekeyDecidesOnce: a connection that an earlier Rekey has had ended isn't allowed by a later
// one, though there is room again. Otherwise its request would be executed, and cut. The earlier one
// comes while Track runs, or after it.
func TestRekeyDecidesOnce(t *testing.T) {
	for _, early := range []bool{true, false} {
		inBubble(t, Policy{IdleTimeout: time.Hour}, nil, true, func(r *rig) {
			var ended []*TimeoutError
			hooks := &Hooks{Expire: func(_ any, err *TimeoutError) { ended = append(ended, err) }}
			r.mustHold(Capacity{PerKey: 1, Key: keyOfLate})
			holder := &lateKey{t: t, asked: true}
			late := &lateKey{t: t, asked: !early}
			r.do(func() {
				if err := r.shard.Track(&holder.conn, holder, hooks); err != nil {
					r.Error(err)
				}
				if !early {
					late.asked = false
				}
				if err := r.shard.Track(&late.conn, late, hooks); err != nil {
					r.Error(err)
				}
				if !early && late.conn.Rekey() {
					r.Error("allowed, though there is no room")
				}
				holder.conn.Stop()
				if late.conn.Rekey() {
					r.Error("allowed, though it's about to end")
				}
			})
			r.wait(time.Second)
			if len(ended) != 1 || ended[0].Reason != ReasonEvict {
				r.Errorf("ended %v", ended)
			}
		})
	}
}
