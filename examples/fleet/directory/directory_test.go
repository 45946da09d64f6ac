package directory

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// most is how many clients a batch names here.
const most = 5000

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
	Feed[struct{}]
	node  string
	d     *Directory
	epoch uint64
	seq   uint64 // that the lease announces
	asked bool
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 0))}
	ask := func(node string) { // even if one was asked for just now: the test has no clock
		for _, b := range w.nodes {
			b.asked = b.asked || b.node == node
		}
	}
	for i := range 3 {
		a := &actor{node: fmt.Sprint("n", i)}
		a.d = New(a.node, ask, func(node, client string, session uint64) {
			if node == a.node { // each ends its own
				w.end(a, client, session-1, "takeover")
			}
		})
		w.nodes = append(w.nodes, a)
		w.begin(a)
	}
	return w
}

// begin gives a node a new lease.
func (w *world) begin(a *actor) {
	w.revision++
	a.epoch = w.revision
	a.Begin()
}

// arrive begins a session of a client at a node, if it is later than the one there.
func (a *actor) arrive(client string, session uint64) {
	if m, ok := a.Find(client); !ok || m.Session < session {
		a.Arrive(client, Member[struct{}]{Session: session})
	}
}

// end ends the session of a client at a node if it is not later than the given one.
func (w *world) end(a *actor, client string, latest uint64, why string) {
	if m, ok := a.Find(client); ok && m.Session <= latest {
		a.End(client, m.Session, why)
	}
}

// next returns the next batch of a node.
func (a *actor) next() (Batch, bool) {
	b, ok := a.Next(most)
	b.Node, b.Epoch = a.node, a.epoch
	return b, ok
}

// tell has a node send a batch, which each directory gets or not. It reports whether there is more
// to tell.
func (w *world) tell(a *actor) bool {
	b, ok := a.next()
	for _, to := range w.nodes {
		if ok && w.random.Float64() >= w.lossy {
			to.d.Apply(b)
		}
	}
	return ok || a.rest != nil
}

// renew has a node renew its lease, which all directories see.
func (w *world) renew(a *actor) {
	a.seq = a.Seq
	for _, to := range w.nodes {
		to.d.Renewed(a.node, a.epoch, a.seq)
	}
}

// expire ends the lease of a node at a directory.
func (a *actor) expire(at *actor) { at.d.Expired(a.node, a.epoch) }

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
				a.Resync()
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
			truth[client] = Place{a.node, m.Session}
		}
	}
	for _, a := range w.nodes {
		got := map[string]Place{}
		for _, v := range a.d.nodes {
			for client := range v.clients {
				got[client], _ = a.d.Find(client)
			}
		}
		if !maps.Equal(got, truth) || !a.d.Complete() {
			w.t.Errorf("the directory of %s has %d clients, complete %t; want %d: %.500s", a.node, len(got), a.d.Complete(), len(truth), fmt.Sprint(got))
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
					a.arrive(client, session)
				case 3:
					w.end(a, client, session, "left")
				case 4, 5:
					w.tell(a)
				case 6:
					w.renew(a)
				case 7:
					if a.asked {
						a.asked = false
						a.Resync()
					} else if w.random.IntN(4) == 0 { // its lease ends, which some directories see late
						for _, to := range w.nodes {
							if w.random.IntN(2) == 0 {
								to.d.Expired(a.node, a.epoch)
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

// TestMovedAround moves clients between nodes at random, and compares the map of places with
// what each node has.
func TestMovedAround(t *testing.T) {
	for seed := range uint64(50) {
		w := newWorld(t, seed)
		session := uint64(0)
		for range 300 {
			a := w.nodes[w.random.IntN(len(w.nodes))]
			client := string(rune('a' + w.random.IntN(5)))
			switch w.random.IntN(8) {
			case 0:
				w.end(a, client, session, "left")
			case 1:
				for _, to := range w.nodes {
					to.d.Expired(a.node, a.epoch)
				}
				w.begin(a)
			default:
				session++
				a.arrive(client, session)
			}
			for w.tell(a) {
			}
			for _, b := range w.nodes {
				mustAgree(t, seed, b.d)
			}
		}
	}
}

// mustAgree compares the map of places with what is known of each node.
func mustAgree(t *testing.T, seed uint64, d *Directory) {
	t.Helper()
	want := map[string]Place{}
	for node, v := range d.nodes {
		for client, session := range v.clients {
			if p, ok := want[client]; !ok || (Place{node, session}).after(p) {
				want[client] = Place{node, session}
			}
		}
	}
	if len(want) != len(d.places) {
		t.Fatalf("seed %d: %d clients have places; want %d", seed, len(d.places), len(want))
	}
	for client, p := range want {
		if d.places[client] != p {
			t.Fatalf("seed %d: %s is at %v; want %v", seed, client, d.places[client], p)
		}
	}
}

// TestSnapshotInParts: a snapshot that does not fit into one batch is right though clients
// come and go while it is told.
func TestSnapshotInParts(t *testing.T) {
	w := newWorld(t, 0)
	w.settle()
	a := w.nodes[0]
	for i := range 2*most + 1 {
		a.arrive(fmt.Sprint("c", i), 1)
	}
	a.Resync()
	parts := 0
	for i := 0; w.tell(a); i++ {
		if i < 2 {
			for _, client := range slices.Collect(maps.Keys(a.members))[:100] {
				w.end(a, client, 1, "left")
			}
			a.arrive(fmt.Sprint("late", i), 1)
		}
		parts++
	}
	if parts < 3 {
		t.Errorf("there were %d batches", parts)
	}
	w.check()
}

// TestBatchBound: a batch has most clients at most, whether they are of a snapshot or have
// changed.
func TestBatchBound(t *testing.T) {
	w := newWorld(t, 0)
	w.settle()
	a := w.nodes[0]
	for i := range 2 * most {
		a.arrive(fmt.Sprint("c", i), 1)
	}
	a.Resync()
	for i := range 4 {
		b, _ := a.next()
		if n := len(b.Here) + len(b.Changes); n > most {
			t.Errorf("a batch has %d clients", n)
		}
		for _, to := range w.nodes {
			to.d.Apply(b)
		}
		for k := range most * 3 / 4 {
			a.arrive(fmt.Sprint("late", i, "-", k), 1)
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
	a.arrive("anna", 1)
	w.settle()
	b.d.Doubt()
	w.renew(a) // the same lease, and no batch is missing
	if b.d.Complete() {
		t.Error("it is complete without a snapshot")
	}
	w.settle()
	w.check()
}

// TestCatchUp: a directory whose process was stopped is complete when a snapshot of its own has
// come, which comes after all that it has missed.
func TestCatchUp(t *testing.T) {
	w := newWorld(t, 0)
	a, b := w.nodes[0], w.nodes[1]
	w.settle()
	b.d.CatchUp()
	w.renew(b)
	if b.d.Complete() {
		t.Error("it is complete before it has caught up")
	}
	a.arrive("anna", 1)
	w.tell(a)
	w.begin(b)
	for w.tell(b) {
	}
	if !b.d.Complete() {
		t.Error("it has caught up, and is not complete")
	}
	w.check()
}

// TestNotExpired: a lease was taken for gone, because a watch that has just begun did not name it,
// and then it is renewed.
func TestNotExpired(t *testing.T) {
	w := newWorld(t, 0)
	a, b := w.nodes[0], w.nodes[1]
	a.arrive("anna", 1)
	w.settle()
	a.expire(b)
	if _, ok := b.d.Find("anna"); ok {
		t.Error("anna's node has no lease, and she is still there")
	}
	w.settle()
	w.check()
}

// TestLostLease: a batch of a lease that has ended is ignored, and so is the end of a lease
// after the next one has begun.
func TestLostLease(t *testing.T) {
	w := newWorld(t, 0)
	a := w.nodes[0]
	a.arrive("anna", 1)
	w.settle()
	d := w.nodes[1].d
	old := a.epoch
	w.revision++ // of the marker that ends the lease
	ended := w.revision
	d.Expired(a.node, ended)
	if _, ok := d.Find("anna"); ok {
		t.Error("the lease has ended, and anna is still there")
	}
	d.Apply(Batch{Node: a.node, Epoch: old, Seq: 100, Part: 1, Last: true, Here: []Change{{Client: "anna", Session: 1}}})
	if _, ok := d.Find("anna"); ok {
		t.Error("a batch of a lease that has ended is taken")
	}
	w.begin(a)
	w.tell(a)
	d.Expired(a.node, ended)
	if _, ok := d.Find("anna"); !ok {
		t.Error("the end of a lease has ended the next one")
	}
	w.settle()
	w.check()
}

// TestOverload: a directory that can take half of what a node tells asks for snapshot after
// snapshot. Each is told at half the pace of the last, until it gets one whole.
func TestOverload(t *testing.T) {
	var f Feed[struct{}]
	for i := range 1000 {
		f.Arrive(fmt.Sprint("client-", i), Member[struct{}]{Session: 1})
	}
	f.Begin()
	d := New("n1", func(string) { f.Resync() }, nil)
	calls, queue := 0, []Batch{}
	for ; calls < 100_000 && !d.view("n0").synced; calls++ {
		if b, ok := f.Next(10); ok && len(queue) < 20 { // what does not fit is lost
			b.Node, b.Epoch = "n0", 1
			queue = append(queue, b)
		}
		if calls%2 == 0 && len(queue) > 0 {
			d.Apply(queue[0])
			queue = queue[1:]
		}
		d.view("n0").asked = time.Time{} // the test has no clock
	}
	t.Log("complete after ", calls, " calls")
	if !d.view("n0").synced {
		t.Error("the directory is never complete")
	}
	for range 20 * calm {
		f.Next(10)
	}
	if f.Resync(); f.slow != 0 {
		t.Errorf("after a calm time a snapshot is told at 1/%d of its pace", 1<<f.slow)
	}
}

// TestOldSessionEnds: a client is back at the same node before its old connection has ended.
func TestOldSessionEnds(t *testing.T) {
	var f Feed[struct{}]
	f.Arrive("anna", Member[struct{}]{Session: 1})
	f.Arrive("anna", Member[struct{}]{Session: 2})
	f.End("anna", 1, "left")
	b, _ := f.Next(most)
	if m, ok := f.Find("anna"); !ok || m.Session != 2 || len(b.Changes) != 1 || b.Changes[0] != (Change{Client: "anna", Session: 2}) {
		t.Errorf("the node has %+v, %t, and tells %+v", m, ok, b.Changes)
	}
}
