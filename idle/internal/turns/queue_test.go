package turns

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// A conn is a connection, and a candidate is one in a queue.
type conn struct {
	last uint32
	live bool
}

type candidate = Candidate[*conn]

func look(c *conn) (last uint32, live bool) { return c.last, c.live }

// TestQueueOrder takes candidates from a queue while others are active, end, and are
// added. With looks enough, each has to be the most idle one of the moment. The stamps
// wrap around.
func TestQueueOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const start = 1<<32 - 500
	q := NewQueue(look)
	left := map[*conn]bool{}
	add := func(now uint32, n, within int) {
		var some []candidate
		for range n {
			c := &conn{now - uint32(rnd.IntN(within)), true}
			left[c] = true
			some = append(some, candidate{Conn: c, Last: c.last})
		}
		q.Add(some)
	}
	add(start, 1000, 300)
	for now := uint32(start); len(left) > 0; now++ {
		for c := range left {
			switch rnd.IntN(400) {
			case 0, 1, 2:
				c.last = now
			case 3:
				c.live = false
				delete(left, c)
			}
		}
		if rnd.IntN(10) == 0 && now-start < 1000 {
			add(now, 5, 1) // those that come later have just been active
		}
		got, ok := nextOf(&q)
		if ok != (len(left) > 0) || ok && !left[got.Conn] {
			t.Fatalf("got %v, %v with %d left", got.Conn, ok, len(left))
		}
		for c := range left {
			if int32(c.last-got.Last) < 0 {
				t.Fatalf("at %d one came that was active at %d, before one at %d", now, got.Last, c.last)
			}
		}
		delete(left, got.Conn)
	}
	if q.Len() != 0 {
		t.Errorf("%d are left", q.Len())
	}
}

// anyOne wants every candidate.
func anyOne(*conn) bool { return true }

// nextOf takes one candidate.
func nextOf(q *Queue[*conn]) (c candidate, ok bool) {
	if some := q.Take(1, anyOne); len(some) > 0 {
		return some[0], true
	}
	return c, false
}

// TestQueueLooks has all connections be active again and again. It must not look at all of
// them for a few turns, and those that it takes have to be among the most idle ones.
func TestQueueLooks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const n, steps, turns = 300_000, 20, 10
	q := NewQueue(look)
	var some []candidate
	for range n {
		c := &conn{live: true}
		some = append(some, candidate{Conn: c})
	}
	q.Add(some)
	for _, c := range some {
		c.Conn.last = 1 + uint32(rnd.IntN(1000))
	}
	for step := range steps {
		looks := 0
		got := q.Take(turns, func(c *conn) bool {
			looks++
			return true
		})
		if sorted := max(0, n-(step+1)*sortedLooks); len(q.sorted) != sorted {
			t.Fatalf("step %d: %d were not looked at, want %d", step, len(q.sorted), sorted)
		}
		if len(got) != turns || looks != turns {
			t.Fatalf("step %d: got %d of %d wanted", step, len(got), looks)
		}
		for _, c := range got {
			if c.Last > 10 || !c.Conn.live {
				t.Errorf("step %d: got one that was active at %d of 1 to 1000", step, c.Last)
			}
		}
	}
}

// TestQueueFindsTheSilent has a few silent connections among many that are active, which had
// the same stamp at first. They must be found before the turn comes to those.
func TestQueueFindsTheSilent(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const before, among = 5000, 50_000
	q := NewQueue(look)
	var some []candidate
	for i := range before + among {
		c := &conn{live: true}
		if i >= before {
			c.last = 1
		}
		some = append(some, candidate{Conn: c, Last: c.last})
	}
	silent := before
	active := slices.Clone(some[before:])
	q.Add(some)
	for i, c := range active {
		if i%200 == 0 {
			silent++
		} else {
			c.Conn.last = 2 + uint32(rnd.IntN(1000))
		}
	}
	for n := 0; n < silent; n += 50 {
		for i, got := range q.Take(50, anyOne) {
			if n+i < silent && got.Last > 1 {
				t.Fatalf("connection %d was active at %d; %d are silent", n+i, got.Last, silent-n-i)
			}
		}
	}
}

// TestQueue holds a queue against a sorted list, while connections are active, end, and
// are added. The stamps wrap.
func TestQueue(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		now := uint32(1<<32 - 100)
		if seed%2 == 0 {
			now = 1000
		}
		q := NewQueue(look)
		var want []*conn
		add := func(n, within int) {
			var all []candidate
			for range n {
				c := &conn{now - uint32(rng.IntN(within)), true}
				want = append(want, c)
				all = append(all, candidate{Conn: c, Last: c.last})
			}
			q.Add(all)
		}
		add(rng.IntN(200), 300)
		for range 400 {
			switch now++; rng.IntN(8) {
			case 0:
				add(rng.IntN(4), 1)
			case 1, 2, 3:
				if len(want) > 0 {
					want[rng.IntN(len(want))].last = now
				}
			case 4:
				if len(want) > 0 {
					i := rng.IntN(len(want))
					want[i].live = false
					want = slices.Delete(want, i, i+1)
				}
			case 5:
				q.Prune()
			default:
				c, ok := nextOf(&q)
				if ok != (len(want) > 0) {
					t.Fatalf("seed %d: next returns %v, %d are left", seed, ok, len(want))
				}
				if !ok {
					continue
				}
				i := slices.Index(want, c.Conn)
				first := slices.MinFunc(want, func(a, b *conn) int { return cmp.Compare(int32(a.last-now), int32(b.last-now)) })
				if i < 0 || want[i].last != first.last || c.Last != first.last {
					t.Fatalf("seed %d: next returns one of %d, index %d; the most idle is of %d", seed, c.Last, i, first.last)
				}
				want = slices.Delete(want, i, i+1)
			}
		}
		q.Prune()
		if q.Len() != len(want) {
			t.Fatalf("seed %d: %d in the queue after a look, want %d", seed, q.Len(), len(want))
		}
	}
}

// TestQueueKeepsNothing looks for connections that a queue holds although they have left
// it.
func TestQueueKeepsNothing(t *testing.T) {
	q := NewQueue(look)
	var some []candidate
	for i := range uint32(50) {
		some = append(some, candidate{&conn{i + i%2*100, true}, i}) // half of them have moved
	}
	q.Add(some)
	q.Take(10, anyOne)
	for _, c := range slices.Concat(q.sorted, q.moved)[:20] {
		c.Conn.live = false
	}
	q.Prune()
	held := 0
	for _, some := range [][]candidate{q.sorted[:cap(q.sorted)], q.moved[:cap(q.moved)]} {
		for _, c := range some {
			if c.Conn != nil {
				held++
			}
		}
	}
	if q.Len() != 20 || held != 20 {
		t.Errorf("%d are in the queue, %d are held", q.Len(), held)
	}
}
