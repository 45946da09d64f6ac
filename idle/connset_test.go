package idle

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestConnSet adds and removes connections while walks are under way. Each walk visits
// those once that were there when it began and have stayed, and none that came later.
func TestConnSet(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		s := connSet{lock: noLock{}}
		var have, owed []*Conn // owed: to be visited still
		without := func(all []*Conn, c *Conn) []*Conn {
			return slices.DeleteFunc(all, func(one *Conn) bool { return one == c })
		}
		for range 500 {
			switch what := rng.IntN(8); {
			case what < 3 || len(have) == 0:
				c := &Conn{}
				s.add(c)
				have = append(have, c)
			case what < 5:
				c := have[rng.IntN(len(have))]
				s.remove(c)
				s.remove(c) // has no effect
				have, owed = without(have, c), without(owed, c)
			case s.unvisited > 0:
				for _, c := range s.visit(1 + rng.IntN(4)) {
					if !slices.Contains(owed, c) {
						t.Fatalf("seed %d: visited twice, or not there at the beginning", seed)
					}
					owed = without(owed, c)
				}
			default:
				if len(owed) > 0 {
					t.Fatalf("seed %d: the walk is over, but %d were not visited", seed, len(owed))
				}
				s.beginWalk()
				owed = slices.Clone(have)
			}
			if len(s.all) != len(have) || s.unvisited != len(owed) {
				t.Fatalf("seed %d: %d connections, want %d; %d unvisited, want %d", seed, len(s.all), len(have), s.unvisited, len(owed))
			}
			for i, c := range s.all {
				if int(c.index) != i {
					t.Fatalf("seed %d: the connection at %d has index %d", seed, i, c.index)
				}
			}
		}
	}
}

// TestConnSetShrinks removes most of many connections. The memory for the places of those is
// given back.
func TestConnSetShrinks(t *testing.T) {
	s := connSet{lock: noLock{}}
	conns := make([]Conn, 100_000)
	for i := range conns {
		s.add(&conns[i])
	}
	for i := range conns[10:] {
		s.remove(&conns[i])
	}
	if len(s.all) != 10 || cap(s.all) > leastConns {
		t.Errorf("%d connections in %d places", len(s.all), cap(s.all))
	}
	for s.last() != nil {
		s.remove(s.last())
	}
	if s.remove(&conns[0]); len(s.all) != 0 {
		t.Error("not empty")
	}
}
