package directory

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
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

// BenchmarkApply is what a directory needs for an arrival or an end, with the parsing of its batch:
// with the clients of one node, and with those of 99 others, too, 5,000 each.
func BenchmarkApply(b *testing.B) {
	for _, others := range []int{0, 99} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) { benchmarkApply(b, others) })
	}
}

func benchmarkApply(b *testing.B, others int) {
	d := New("n1", nil, nil)
	var texts [2][]byte // all clients of n0 arrive, and all leave
	for n := range others + 1 {
		var here, ends []Change
		for i := range most {
			c := Change{Client: fmt.Sprintf("client-%02d-%04d", n, i), Session: 1_790_000_000_000_000 + uint64(i)}
			here = append(here, c)
			c.Why = "left"
			ends = append(ends, c)
		}
		if n > 0 {
			d.Apply(Batch{Node: fmt.Sprint("n", n), Epoch: 1, Part: 1, Last: true, Here: here})
			continue
		}
		d.Apply(Batch{Node: "n0", Epoch: 1, Part: 1, Last: true})
		for i, changes := range [][]Change{here, ends} {
			rand.Shuffle(most, func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
			texts[i], _ = json.Marshal(Batch{Node: "n0", Epoch: 1, Changes: changes})
		}
	}
	b.ReportAllocs()
	n := 0
	for ; b.Loop(); n++ {
		var one Batch
		if json.Unmarshal(texts[n%2], &one) != nil {
			b.Fatal("it cannot be parsed")
		}
		one.Seq = uint64(n + 1)
		d.Apply(one)
	}
	if want := (others + n%2) * most; d.Size() != want {
		b.Errorf("%d clients are known; want %d", d.Size(), want)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n)/most, "ns/arrival")
}
