package idle

import (
	"errors"
	"testing"
	"time"
)

// TestPerKeyRaisedBesideStuckLoop raises PerKey while a walk over the loop that is blocked
// does not end. Each newcomer takes one from the quota.
func TestPerKeyRaisedBesideStuckLoop(t *testing.T) {
	onStuck(t, Policy{IdleTimeout: 24 * time.Hour}, func(r *rig) {
		key := func(any) string { return "a" }
		r.mustHold(Capacity{PerKey: 2, Key: key})
		r.wait(time.Minute)
		r.guests(1)
		r.mustHold(Capacity{PerKey: 20, Key: key, NewPerKey: Quota{PerSecond: 0.001, Burst: 15}})
		r.wait(time.Minute)
		r.mustHold(Capacity{PerKey: 20, Key: key, NewPerKey: Quota{PerSecond: 0.001, Burst: 15}})
		r.wait(time.Minute)
		for range 10 {
			g := &guest{}
			if err := r.tryTrack(&g.conn, g); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestQuotaOfKeysStaysUsed sets the same capacity again and again.
func TestQuotaOfKeysStaysUsed(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: 24 * time.Hour}, nil, func(r *rig) {
		c := Capacity{NewPerKey: Quota{PerSecond: 0.001, Burst: 2}, Key: func(any) string { return "a" }}
		admitted := 0
		for range 10 {
			r.mustHold(c)
			r.wait(time.Second)
			for range 5 {
				g := &guest{}
				if r.tryTrack(&g.conn, g) == nil {
					admitted++
				}
			}
		}
		if admitted > 2 {
			t.Errorf("%d were admitted", admitted)
		}
	})
}

// TestAnotherKey changes Key. Connections that are there count by the new one, also those
// that had no key before.
func TestAnotherKey(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: 24 * time.Hour}, nil, func(r *rig) {
		byNumber := func(owner any) string { return string(rune('a' + owner.(*guest).n)) }
		all := func(any) string { return "all" }
		try := func(want error) *guest {
			g := &guest{n: 100}
			if err := r.tryTrack(&g.conn, g); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
			return g
		}
		r.guests(3)
		for _, key := range []func(any) string{byNumber, func(any) string { return "" }} {
			r.mustHold(Capacity{PerKey: 4, Key: key})
			r.wait(time.Second)
			r.mustHold(Capacity{PerKey: 4, Key: all})
			r.wait(time.Second)
			g := try(nil)
			try(ErrFull)
			r.mustHold(Capacity{PerKey: 4, Key: byNumber})
			r.wait(time.Second)
			last := try(nil)
			r.do(func() {
				g.conn.Stop()
				last.conn.Stop()
			})
		}
	})
}
