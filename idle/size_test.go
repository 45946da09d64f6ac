package idle

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// TestSizeOfConn pins the memory that a connection costs.
func TestSizeOfConn(t *testing.T) {
	most := uintptr(136)
	if unsafe.Sizeof(uintptr(0)) == 4 {
		most = 112
	}
	if size := unsafe.Sizeof(Conn{}); size > most {
		t.Errorf("a Conn has %d bytes, at most %d are allowed", size, most)
	}
}

// TestNoAllocations covers all that happens per activity and per connection.
func TestNoAllocations(t *testing.T) {
	policy := Policy{
		IdleTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute, MaxAge: time.Hour,
		Heartbeat:   Heartbeat{Interval: time.Minute, Passive: true},
		MinReadRate: Rate{100, time.Minute}, MinWriteRate: Rate{100, time.Minute},
	}
	tr := newTracker(t, policy, nil)
	short, err := tr.Phase(Policy{IdleTimeout: time.Second})
	check(t, err)
	p, other := &peer{}, &peer{}
	hooks := hooksOf(other)
	check(t, tr.Track(&p.Conn, p, hooksOf(p)))
	for name, do := range map[string]func(){
		"Touch":                      p.Touch,
		"Received":                   func() { p.Received(10) },
		"Sent":                       func() { p.Sent(10) },
		"Beat":                       p.Beat,
		"reads":                      func() { p.PauseRead(); p.AwaitRead() },
		"writes":                     func() { p.AwaitWrite(); p.PauseWrite() },
		"Enter":                      func() { p.Enter(short); p.Enter(tr.phase) },
		"after a sleep of the clock": func() { tr.clock.Sleep(); p.Touch() },
		"Track and Close": func() {
			other.Conn = Conn{}
			if err := tr.Track(&other.Conn, other, hooks); err != nil {
				t.Error(err)
			}
			other.Stop()
		},
	} {
		if n := testing.AllocsPerRun(1000, do); n > 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// TestConnSet adds and removes connections while visits are under way. Each visit has those that
// were there when it began and have stayed.
func TestConnSet(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		s, q := connSet{}, visits{}
		v := &visit{}
		var have, due []*Conn // due: to be visited still
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
				have, due = without(have, c), without(due, c)
			case q.some.Load():
				_, from, to := q.next(len(s.all), 1+rng.IntN(4))
				for _, c := range s.all[from:to] {
					due = without(due, c)
				}
				if q.stepped(v) && len(due) > 0 {
					t.Fatalf("seed %d: the visit is over, but %d were not visited", seed, len(due))
				}
			default:
				q.add(v)
				due = slices.Clone(have)
			}
			if len(s.all) != len(have) {
				t.Fatalf("seed %d: %d connections, want %d", seed, len(s.all), len(have))
			}
			for i, c := range s.all {
				if int(c.index) != i || !s.has(c) {
					t.Fatalf("seed %d: the connection at %d has index %d", seed, i, c.index)
				}
			}
		}
	}
}

// TestConnSetShrinks removes most of many connections. The memory for the places of those is
// given back.
func TestConnSetShrinks(t *testing.T) {
	s := connSet{}
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
	if s.has(&conns[0]) {
		t.Error("not empty")
	}
}
