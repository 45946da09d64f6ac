package idledebug

import (
	"fmt"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestListOfEnded has the first connections of a list end after the census. Those that
// follow take their places.
func TestListOfEnded(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		var conns []*idle.Conn
		for i := range 2500 {
			if conns = append(conns, s.track(fmt.Sprint(i))); i%500 == 0 {
				time.Sleep(time.Second)
			}
		}
		get[state](s, "/api/state?ends=0")
		c, err := s.h.looks["main"].list(s.Context(), view{sort: idle.Oldest})
		if err != nil {
			s.Fatal(err)
		}
		for _, c := range conns[:2490] {
			c.Stop()
		}
		l := get[list](s, "/api/connections?sort=age&size=5")
		if len(l.Rows) != 5 || l.Total != c.Len() || l.Total != 2500 {
			s.Errorf("%d rows of %d: %s", len(l.Rows), l.Total, l.labels())
		}
	})
}

// TestUnsent shows how much waits for peers.
func TestUnsent(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		for i, label := range []string{"quick", "slow", "slower"} {
			c := &idle.Conn{}
			hooks := &idle.Hooks{Expire: func(any, *idle.TimeoutError) {}, Unsent: func(any) int { return 1000 * i }}
			if err := s.tracker().Track(c, label, hooks); err != nil {
				s.Fatal(err)
			}
			c.AwaitWrite()
		}
		if c := get[state](s, "/api/state").Census; c.Unsent != 3000 || c.WithUnsent != 2 {
			s.Errorf("%+v", c)
		}
		if l := get[list](s, "/api/connections?sort=unsent"); len(l.Rows) != 3 || l.Rows[0].Label != "slower" || l.Rows[0].Unsent != 2000 {
			s.Errorf("%+v", l.Rows)
		}
	})
}

// TestRefused has connections refused by each limit.
func TestRefused(t *testing.T) {
	withSite(t, Options{}, func(s *site) {
		if err := s.tracker().SetPolicy(idle.Policy{IdleTimeout: time.Hour, Handshake: true}); err != nil {
			s.Fatal(err)
		}
		track := func(c idle.Capacity, owner string) {
			if err := s.tracker().SetCapacity(c); err != nil {
				s.Fatal(err)
			}
			s.tracker().Track(new(idle.Conn), owner, &idle.Hooks{Expire: func(any, *idle.TimeoutError) {}})
		}
		key := func(owner any) string { return owner.(string) }
		all := idle.Capacity{MaxConns: 3, MinIdle: time.Hour, PerKey: 1, Key: key, New: idle.Quota{PerSecond: 1, Burst: 5}, NewPerKey: idle.Quota{PerSecond: 2}, Handshakes: 4, HandshakesPerKey: 3}
		track(all, "a")
		track(all, "b")
		track(all, "c")
		track(all, "d")
		track(all, "a")
		all.Handshakes = 1
		track(all, "e")
		track(idle.Capacity{New: idle.Quota{PerSecond: 1e-9}}, "f")
		track(idle.Capacity{New: idle.Quota{PerSecond: 1e-9}}, "g")
		st := get[state](s, "/api/state")
		if fmt.Sprint(st.Refused) != "map[full:1 handshake:1 key:1 rate:1]" || st.Counts.Refused != 4 {
			s.Errorf("%v of %d", st.Refused, st.Counts.Refused)
		}
		if err := s.tracker().SetCapacity(all); err != nil {
			s.Fatal(err)
		}
		want := capacity{MaxConns: 3, MinIdle: 3600, PerKey: 1, New: quota{1, 5}, NewPerKey: quota{PerSecond: 2}, Handshakes: 1, HandshakesPerKey: 3}
		if c := get[state](s, "/api/state").Capacity; *c != want {
			s.Errorf("%+v", c)
		}
	})
}

// TestPagesAreDescribedOnce has two people walk through many pages.
func TestPagesAreDescribedOnce(t *testing.T) {
	withSite(t, Options{Steer: true}, func(s *site) {
		for i := range 300 {
			s.track(fmt.Sprint(i))
		}
		for p := range 150 {
			target := fmt.Sprintf("/api/connections?size=2&page=%d", p+1)
			if one, other := get[list](s, target), get[list](s, target); one.Rows[0].ID != other.Rows[0].ID {
				s.Errorf("page %d: a row has the id %s, and then %s", p+1, one.Rows[0].ID, other.Rows[0].ID)
				break
			}
		}
	})
}

// TestPagesAreDisjoint has connections end after the census, and looks at the pages in
// several orders.
func TestPagesAreDisjoint(t *testing.T) {
	for _, order := range [][]int{{1, 2, 3, 4}, {4, 3, 2, 1}, {2, 1, 3, 4}, {3, 1, 4, 2}} {
		withSite(t, Options{Steer: true}, func(s *site) {
			var conns []*idle.Conn
			for i := range 10 {
				conns = append(conns, s.track(fmt.Sprint(i)))
				time.Sleep(100 * time.Millisecond)
			}
			c, err := s.h.looks["main"].list(s.Context(), view{sort: idle.Oldest})
			if err != nil {
				s.Fatal(err)
			}
			for _, ended := range []int{0, 1, 2, 3} {
				conns[ended].Stop()
			}
			on := map[string]int{}
			ids := map[string]bool{}
			for _, p := range order {
				l := get[list](s, fmt.Sprintf("/api/connections?sort=age&size=3&page=%d", p))
				if !l.At.Equal(c.At) {
					s.Fatal("there was another census")
				}
				if p == 1 && len(l.Rows) != 3 {
					s.Errorf("in the order %v, page 1 has %q", order, l.labels())
				}
				for _, r := range l.Rows {
					if on[r.Label] != 0 || ids[r.ID] {
						s.Errorf("in the order %v, %s is on page %d and on page %d", order, r.Label, on[r.Label], p)
					}
					on[r.Label], ids[r.ID] = p, true
				}
			}
			if len(on) != 6 {
				s.Errorf("in the order %v, %d of 6 are shown: %v", order, len(on), on)
			}
		})
	}
}
