package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/idlewheel/idlewheel/idle"
)

// A world has nodes without sockets and without an engine. The test carries messages between
// them, or loses them.
type world struct {
	t        *testing.T
	random   *rand.Rand
	nodes    []*actor
	revision uint64 // of the last lease
	lossy    float64
}

type actor struct {
	*presence
	d     *directory
	lease Lease
	asked bool
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 0))}
	for i := range 3 {
		a := &actor{presence: newPresence(fmt.Sprint("n", i)), d: newDirectory(fmt.Sprint("n", i))}
		a.shed = func(member) {}
		w.nodes = append(w.nodes, a)
	}
	for _, a := range w.nodes {
		a.d.takeOver = func(client string, session uint64) { w.end(a, client, session-1, takenOver) }
		a.d.ask = func(node string) { // even if one was asked for just now: the test has no clock
			for _, b := range w.nodes {
				b.asked = b.asked || b.node == node
			}
		}
		w.begin(a)
	}
	return w
}

// begin gives a node a new lease.
func (w *world) begin(a *actor) {
	w.revision++
	a.lease = Lease{Epoch: w.revision}
	a.begin(w.revision)
}

// end ends the session of a client at a node if it is not later than the given one.
func (w *world) end(a *actor, client string, latest uint64, why string) {
	if m, ok := a.members[client]; ok && m.session <= latest {
		a.ended([]idle.End{{Label: label(client, m.session), Reason: idle.ReasonShed, Cause: why}})
	}
}

// tell has a node send a batch, which each directory gets or not.
func (w *world) tell(a *actor) bool {
	text := a.next()
	if text == nil {
		return false
	}
	var b batch
	if err := json.Unmarshal(text, &b); err != nil {
		w.t.Fatal(err)
	}
	for _, to := range w.nodes {
		if w.random.Float64() >= w.lossy {
			to.d.apply(b)
		}
	}
	return true
}

// renew has a node renew its lease, which all directories see.
func (w *world) renew(a *actor) {
	_, a.lease.Seq = a.count()
	for _, to := range w.nodes {
		to.d.renewed(a.node, a.lease)
	}
}

// settle carries everything until nobody has anything to tell.
func (w *world) settle() {
	w.lossy = 0
	for range 10 {
		for _, a := range w.nodes {
			w.renew(a)
			for _, v := range a.d.nodes {
				v.asked = v.asked.AddDate(-1, 0, 0)
			}
			if a.asked {
				a.asked = false
				a.resync()
			}
			for w.tell(a) {
			}
		}
	}
}

// check compares all directories with what the nodes have.
func (w *world) check() {
	w.t.Helper()
	truth := map[string]Place{}
	for _, a := range w.nodes {
		for client, m := range a.members {
			if other, twice := truth[client]; twice {
				w.t.Errorf("%s is at %s and at %s", client, a.node, other.Node)
			}
			truth[client] = Place{a.node, m.session}
		}
	}
	for _, a := range w.nodes {
		got := map[string]Place{}
		for _, v := range a.d.nodes {
			for client := range v.clients {
				got[client], _ = a.d.find(client)
			}
		}
		if !maps.Equal(got, truth) || !a.d.complete() {
			w.t.Errorf("the directory of %s has %v, complete %t; want %v", a.node, got, a.d.complete(), truth)
		}
	}
}

// TestDirectories: whatever is lost, and whichever leases end, all directories are right in
// the end.
func TestDirectories(t *testing.T) {
	for seed := range uint64(1000) {
		w := newWorld(t, seed)
		session := uint64(0)
		for range 4 {
			w.lossy = w.random.Float64() * 0.5
			for range 60 {
				a := w.nodes[w.random.IntN(3)]
				client := fmt.Sprint("c", w.random.IntN(8))
				switch w.random.IntN(8) {
				case 0, 1, 2:
					session++
					a.arrive(client, session, nil)
				case 3:
					w.end(a, client, session, "left")
				case 4, 5:
					w.tell(a)
				case 6:
					w.renew(a)
				case 7:
					if a.asked {
						a.asked = false
						a.resync()
					} else if w.random.IntN(4) == 0 { // its lease ends, which some directories see late
						for _, to := range w.nodes {
							if w.random.IntN(2) == 0 {
								to.d.expired(a.node, a.lease.Epoch)
							}
						}
						w.begin(a)
					}
				}
			}
			w.settle()
			w.check()
		}
		if t.Failed() {
			t.Fatal("seed ", seed)
		}
	}
}

// TestSnapshotInParts: a snapshot that does not fit into one batch is right though clients
// come and go while it is told.
func TestSnapshotInParts(t *testing.T) {
	w := newWorld(t, 0)
	w.settle()
	a := w.nodes[0]
	for i := range 2*batchMost + 1 {
		a.arrive(fmt.Sprint("c", i), 1, nil)
	}
	a.resync()
	parts := 0
	for i := 0; w.tell(a); i++ {
		if i < 2 {
			for _, client := range slices.Collect(maps.Keys(a.members))[:100] {
				w.end(a, client, 1, "left")
			}
			a.arrive(fmt.Sprint("late", i), 1, nil)
		}
		parts++
	}
	if parts < 3 {
		t.Errorf("there were %d batches", parts)
	}
	w.check()
}

// TestBatchBound: a batch has batchMost clients at most, whether they are of a snapshot or have
// changed.
func TestBatchBound(t *testing.T) {
	w := newWorld(t, 0)
	w.settle()
	a := w.nodes[0]
	for i := range 2 * batchMost {
		a.arrive(fmt.Sprint("c", i), 1, nil)
	}
	a.resync()
	for i := range 4 {
		var b batch
		if err := json.Unmarshal(a.next(), &b); err != nil {
			t.Fatal(err)
		}
		if n := len(b.Here) + len(b.Changes); n > batchMost {
			t.Errorf("a batch has %d clients", n)
		}
		for _, to := range w.nodes {
			to.d.apply(b)
		}
		for k := range batchMost * 3 / 4 {
			a.arrive(fmt.Sprint("late", i, "-", k), 1, nil)
		}
	}
	for w.tell(a) {
	}
	w.check()
}

// TestDoubt: a directory that may have missed something is not complete until it has a new
// snapshot of each node.
func TestDoubt(t *testing.T) {
	w := newWorld(t, 0)
	a, b := w.nodes[0], w.nodes[1]
	a.arrive("anna", 1, nil)
	w.settle()
	b.d.doubt()
	w.renew(a) // the same lease, and no batch is missing
	if b.d.complete() {
		t.Error("it is complete without a snapshot")
	}
	w.settle()
	w.check()
}

// TestLostLease: a batch of a lease that has ended is ignored, and so is the end of a lease
// after the next one has begun.
func TestLostLease(t *testing.T) {
	w := newWorld(t, 0)
	a := w.nodes[0]
	a.arrive("anna", 1, nil)
	w.settle()
	d := w.nodes[1].d
	old := a.lease.Epoch
	w.revision++ // of the marker that ends the lease
	ended := w.revision
	d.expired(a.node, ended)
	if _, ok := d.find("anna"); ok {
		t.Error("the lease has ended, and anna is still there")
	}
	d.apply(batch{Node: a.node, Epoch: old, Seq: 100, Part: 1, Last: true, Here: []change{{Client: "anna", Session: 1}}})
	if _, ok := d.find("anna"); ok {
		t.Error("a batch of a lease that has ended is taken")
	}
	w.begin(a)
	w.tell(a)
	d.expired(a.node, ended)
	if _, ok := d.find("anna"); !ok {
		t.Error("the end of a lease has ended the next one")
	}
	w.settle()
	w.check()
}

// TestCosts prints what the README calculates with.
func TestCosts(t *testing.T) {
	const n = batchMost
	a := newPresence("n0")
	a.begin(1)
	a.next()
	for i := range n {
		a.arrive(fmt.Sprintf("client-%06d", i), 1_790_000_000_000_000+uint64(i), nil)
	}
	arrivals := a.next()
	for client, m := range a.members {
		a.ended([]idle.End{{Label: label(client, m.session)}})
	}
	ends := a.next()
	lease, _ := json.Marshal(Lease{Owner: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Epoch: 1000, Seq: 100_000, Clients: 1_000_000, Address: "10.0.0.1:9011", Ops: "10.0.0.1:6071"})

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	d := newDirectory("other")
	d.takeOver, d.ask = func(string, uint64) {}, func(string) {}
	for i := range 100_000 {
		d.apply(batch{Node: "n0", Epoch: 1, Seq: uint64(i), Part: max(0, 1-i), Last: i == 0, Changes: []change{{Client: fmt.Sprintf("client-%06d", i), Session: 1}}})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	perArrival, perEnd, perClient := len(arrivals)/n, len(ends)/n, (after.HeapAlloc-before.HeapAlloc)/100_000
	t.Logf("an arrival has %d bytes, an end %d, a lease %d; a client in a directory takes %d", perArrival, perEnd, len(lease), perClient)
	if perArrival > 60 || perEnd > 70 || len(lease) > 250 || perClient > 150 {
		t.Error("that is more than the README calculates with")
	}
	runtime.KeepAlive(d)
}

// BenchmarkApply is what a directory needs for an arrival, with the parsing of its batch: if
// there is one node, and if there are 99 others with 5,000 clients each.
func BenchmarkApply(b *testing.B) {
	for _, others := range []int{0, 99} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) { benchmarkApply(b, others) })
	}
}

func benchmarkApply(b *testing.B, others int) {
	a := newPresence("n0")
	a.begin(1)
	for i := range batchMost {
		a.arrive(fmt.Sprintf("client-%06d", i), uint64(i+1), nil)
	}
	a.resync()
	text := a.next()
	nodes := map[string]*view{}
	for i := range others {
		v := &view{clients: map[string]uint64{}}
		for k := range batchMost {
			v.clients[fmt.Sprintf("client-%02d-%03d", i, k)] = 1
		}
		nodes[fmt.Sprint("other", i)] = v
	}
	b.ReportAllocs()
	for b.Loop() {
		d := newDirectory("n1")
		d.takeOver, d.ask = func(string, uint64) {}, func(string) {}
		maps.Copy(d.nodes, nodes)
		var one batch
		if json.Unmarshal(text, &one) != nil {
			b.Fatal("it cannot be parsed")
		}
		d.apply(one)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batchMost, "ns/arrival")
}
