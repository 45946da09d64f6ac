package idle

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestQueueOrder takes candidates from a queue while others are active, end, and are
// added. With looks enough, each has to be the most idle one of the moment. The stamps
// wrap around.
func TestQueueOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const start = 1<<32 - 500
	var q queue
	left := map[*Conn]bool{}
	add := func(now uint32, n, within int) {
		var some []candidate
		for range n {
			c := new(Conn)
			c.state.Store(live)
			c.in.stamp.Store(at(int64(now - uint32(rnd.IntN(within)))))
			left[c] = true
			some = append(some, candidate{conn: c, last: c.lastUse().Bits()})
		}
		q.add(some)
	}
	add(start, 1000, 300)
	for now := uint32(start); len(left) > 0; now++ {
		for c := range left {
			switch rnd.IntN(400) {
			case 0, 1, 2:
				c.in.stamp.Store(at(int64(now)))
			case 3:
				c.state.Store(0)
				delete(left, c)
			}
		}
		if rnd.IntN(10) == 0 && now-start < 1000 {
			add(now, 5, 1) // those that come later have just been active
		}
		got, ok := nextOf(&q)
		if ok != (len(left) > 0) || ok && !left[got.conn] {
			t.Fatalf("got %v, %v with %d left", got.conn, ok, len(left))
		}
		for c := range left {
			if int32(c.lastUse().Bits()-got.last) < 0 {
				t.Fatalf("at %d one came that was active at %d, before one at %d", now, got.last, c.lastUse().Bits())
			}
		}
		delete(left, got.conn)
	}
	if q.len() != 0 {
		t.Errorf("%d are left", q.len())
	}
}

// anyOne wants every candidate.
func anyOne(*candidate) bool { return true }

// nextOf takes one candidate.
func nextOf(q *queue) (c candidate, ok bool) {
	if some := q.take(1, anyOne); len(some) > 0 {
		return some[0], true
	}
	return c, false
}

// TestQueueLooks has all connections be active again and again. It must not look at all of
// them for a few turns, and those that it takes have to be among the most idle ones.
func TestQueueLooks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const n, steps, turns = 300_000, 20, 10
	var q queue
	var some []candidate
	for range n {
		c := new(Conn)
		c.state.Store(live)
		some = append(some, candidate{conn: c})
	}
	q.add(some)
	for _, c := range some {
		c.conn.in.stamp.Store(at(int64(1 + uint32(rnd.IntN(1000)))))
	}
	for step := range steps {
		looks := 0
		got := q.take(turns, func(c *candidate) bool {
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
			if c.last > 10 || !c.conn.Live() {
				t.Errorf("step %d: got one that was active at %d of 1 to 1000", step, c.last)
			}
		}
	}
}

// TestQueueFindsTheSilent has a few silent connections among many that are active, which had
// the same stamp at first. They must be found before the turn comes to those.
func TestQueueFindsTheSilent(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const before, among = 5000, 50_000
	var q queue
	var some []candidate
	for i := range before + among {
		c := new(Conn)
		c.state.Store(live)
		if i >= before {
			c.in.stamp.Store(at(int64(1)))
		}
		some = append(some, candidate{conn: c, last: c.lastUse().Bits()})
	}
	silent := before
	active := slices.Clone(some[before:])
	q.add(some)
	for i, c := range active {
		if i%200 == 0 {
			silent++
		} else {
			c.conn.in.stamp.Store(at(int64(2 + uint32(rnd.IntN(1000)))))
		}
	}
	for n := 0; n < silent; n += 50 {
		for i, got := range q.take(50, anyOne) {
			if n+i < silent && got.last > 1 {
				t.Fatalf("connection %d was active at %d; %d are silent", n+i, got.last, silent-n-i)
			}
		}
	}
}

// A queuer is a connection in a queue, as the oracle knows it.
type queuer struct {
	conn *Conn
	last uint32
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
		var q queue
		var want []*queuer
		add := func(n, within int) {
			var all []candidate
			for range n {
				w := &queuer{conn: &Conn{}, last: at(int64(now - uint32(rng.IntN(within)))).Bits()}
				w.conn.state.Store(live)
				w.conn.in.stamp.Store(at(int64(w.last)))
				w.conn.out.stamp.Store(at(int64(w.last - uint32(rng.IntN(10)))))
				want = append(want, w)
				all = append(all, candidate{conn: w.conn, last: w.last})
			}
			q.add(all)
		}
		add(rng.IntN(200), 300)
		for range 400 {
			switch now++; rng.IntN(8) {
			case 0:
				add(rng.IntN(4), 1)
			case 1, 2, 3:
				if len(want) > 0 {
					w := want[rng.IntN(len(want))]
					w.last = at(int64(now)).Bits()
					[]*flow{&w.conn.in, &w.conn.out}[rng.IntN(2)].stamp.Store(at(int64(now)))
				}
			case 4:
				if len(want) > 0 {
					i := rng.IntN(len(want))
					want[i].conn.state.end()
					want = slices.Delete(want, i, i+1)
				}
			case 5:
				q.prune()
			default:
				c, ok := nextOf(&q)
				if ok != (len(want) > 0) {
					t.Fatalf("seed %d: next returns %v, %d are left", seed, ok, len(want))
				}
				if !ok {
					continue
				}
				i := slices.IndexFunc(want, func(w *queuer) bool { return w.conn == c.conn })
				first := slices.MinFunc(want, func(a, b *queuer) int { return cmp.Compare(int32(a.last-now), int32(b.last-now)) })
				if i < 0 || want[i].last != first.last || c.last != first.last {
					t.Fatalf("seed %d: next returns one of %d, index %d; the most idle is of %d", seed, c.last, i, first.last)
				}
				want = slices.Delete(want, i, i+1)
			}
		}
		q.prune()
		if q.len() != len(want) {
			t.Fatalf("seed %d: %d in the queue after a look, want %d", seed, q.len(), len(want))
		}
	}
}

// TestQueueKeepsNothing looks for connections that a queue holds although they have left
// it.
func TestQueueKeepsNothing(t *testing.T) {
	var q queue
	var some []candidate
	for i := range uint32(50) {
		c := &Conn{}
		c.state.Store(live)
		some = append(some, candidate{conn: c, last: i})
		c.in.stamp.Store(at(int64(i + i%2*100))) // half of them have moved
	}
	q.add(some)
	q.take(10, anyOne)
	for _, c := range slices.Concat(q.sorted, q.moved)[:20] {
		c.conn.state.end()
	}
	q.prune()
	held := 0
	for _, some := range [][]candidate{q.sorted[:cap(q.sorted)], q.moved[:cap(q.moved)]} {
		for _, c := range some {
			if c.conn != nil {
				held++
			}
		}
	}
	if q.len() != 20 || held != 20 {
		t.Errorf("%d are in the queue, %d are held", q.len(), held)
	}
}
