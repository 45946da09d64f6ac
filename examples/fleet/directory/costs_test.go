package directory

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"testing"
)

// TestCosts prints what the README calculates with.
func TestCosts(t *testing.T) {
	const n = most
	var f Feed[struct{}]
	for i := range n {
		f.Arrive(fmt.Sprintf("client-%06d", i), Member[struct{}]{Session: 1_790_000_000_000_000 + uint64(i)})
	}
	text := func() []byte {
		b, _ := f.Next(n)
		b.Node, b.Epoch = "n0", 1_790_000_000_000_000
		text, _ := json.Marshal(b)
		return text
	}
	arrivals := text()
	for client, m := range f.members {
		f.End(client, m.Session, "left")
	}
	ends := text()

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	d := New("other", nil, nil)
	for i := range 100_000 {
		d.Apply(Batch{Node: "n0", Epoch: 1, Seq: uint64(i), Part: max(0, 1-i), Last: i == 0, Changes: []Change{{Client: fmt.Sprintf("client-%06d", i), Session: 1}}})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	perArrival, perEnd, perClient := len(arrivals)/n, len(ends)/n, (after.HeapAlloc-before.HeapAlloc)/100_000
	t.Logf("an arrival has %d bytes, an end %d; a client in a directory takes %d", perArrival, perEnd, perClient)
	if perArrival > 60 || perEnd > 70 || perClient > 150 {
		t.Error("that is more than the README calculates with")
	}
	runtime.KeepAlive(d)
}

// TestMemory prints what a directory of a hundred nodes needs for a client: at rest, and after an
// outage, while all nodes tell all that they have at the same time.
func TestMemory(t *testing.T) {
	const nodes, perNode = 100, 5000
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := heap()
	d := New("other", nil, nil)
	tell := func(epoch uint64, last bool) {
		for n := range nodes {
			b := Batch{Node: fmt.Sprint("n", n), Epoch: epoch, Seq: epoch, Part: 1, Last: last}
			for i := range perNode {
				b.Here = append(b.Here, Change{Client: fmt.Sprintf("client-%06d", n*perNode+i), Session: 1})
			}
			d.Apply(b)
		}
	}
	tell(1, true)
	rest := (heap() - before) / nodes / perNode
	tell(1, false) // the last part is still to come
	during := (heap() - before) / nodes / perNode
	t.Logf("a client takes %.0f bytes, and %.0f while snapshots are told", rest, during)
	if d.Size() != nodes*perNode || rest > 200 || during > 260 {
		t.Errorf("%d clients are known, and take more than the README says", d.Size())
	}
}

// BenchmarkApply is what a directory needs for an arrival, with the parsing of its batch: if
// there is one node, and if there are 99 others with 5,000 clients each.
func BenchmarkApply(b *testing.B) {
	for _, others := range []int{0, 99} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) { benchmarkApply(b, others) })
	}
}

func benchmarkApply(b *testing.B, others int) {
	var f Feed[struct{}]
	for i := range most {
		f.Arrive(fmt.Sprintf("client-%06d", i), Member[struct{}]{Session: uint64(i + 1)})
	}
	f.Resync()
	batch, _ := f.Next(most)
	batch.Node, batch.Epoch = "n0", 1
	text, _ := json.Marshal(batch)
	nodes := map[string]*view{}
	for i := range others {
		v := &view{clients: map[string]uint64{}}
		for k := range most {
			v.clients[fmt.Sprintf("client-%02d-%03d", i, k)] = 1
		}
		nodes[fmt.Sprint("other", i)] = v
	}
	b.ReportAllocs()
	for b.Loop() {
		d := New("n1", nil, nil)
		maps.Copy(d.nodes, nodes)
		var one Batch
		if json.Unmarshal(text, &one) != nil {
			b.Fatal("it cannot be parsed")
		}
		d.Apply(one)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/most, "ns/arrival")
}
