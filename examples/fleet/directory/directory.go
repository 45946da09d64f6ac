// Package directory knows where the clients of a fleet are. A [Directory] is made of what the
// nodes tell, in memory only: the truth is in the nodes, which repeat it when asked. It sends
// nothing and waits for nothing, so package node decides how batches and leases reach it.
package directory

import (
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Place is a node and the session that a client has there. The client numbers its sessions,
// each greater than the last, so no clocks of nodes are compared.
type Place struct {
	Node    string `json:"node"`
	Session uint64 `json:"session"`
}

// after reports whether p is where a client is that has sessions at both places. Among equal
// ones the name of the node decides.
func (p Place) after(other Place) bool {
	return p.Session > other.Session || p.Session == other.Session && p.Node > other.Node
}

// A Change is an arrival if Why is empty. Otherwise it is the end of a session and of all
// before it: of a client that comes and goes within a batch, only the last change is told.
type Change struct {
	Client  string `json:"c"`
	Session uint64 `json:"s"`
	Why     string `json:"w,omitempty"`
}

// A Batch is what a node tells the directories of a partition at a time.
type Batch struct {
	Node    string   `json:"node"`
	Epoch   uint64   `json:"epoch"`          // of its lease
	Seq     uint64   `json:"seq"`            // counts the batches of the epoch in this partition
	Part    int      `json:"part,omitempty"` // of a snapshot: 1 for the first
	Last    bool     `json:"last,omitempty"` // this part ends the snapshot
	Here    []Change `json:"here,omitempty"`
	Changes []Change `json:"changes,omitempty"`
}

// Partition returns the partition to which a client belongs, of so many.
func Partition(client string, partitions int) int {
	if partitions < 2 {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(client))
	return int(h.Sum32() % uint32(partitions))
}

// A Directory knows where every client of a partition is. Its methods may be called by several
// goroutines.
type Directory struct {
	Gaps, Snapshots atomic.Uint64 // batches that were missed, and snapshots asked for

	self     string
	ask      func(node string)
	takeOver func(node, client string, session uint64)

	mu     sync.RWMutex // guards what follows
	nodes  map[string]*view
	places map[string]Place    // where each client is: where its greatest session is
	double map[string][]string // the nodes that have a client, if there are several
}

// A view is what a node has told. What others have told of the same clients stays apart. So when
// the later of two sessions of a client ends, the other one is where the client is, if its node
// still has it.
type view struct {
	epoch     uint64
	ended     uint64            // no lease up to this epoch lives
	announced uint64            // the last batch, as the lease says; 0 before the first renewal of an epoch
	seq       uint64            // of the last batch that came
	chained   bool              // no batch is missing since the last snapshot began
	synced    bool              // that snapshot is complete
	clients   map[string]uint64 // sessions
	fresh     map[string]uint64 // what will be clients when the snapshot is complete
	asked     time.Time         // when a snapshot was asked for
}

// New returns the directory of a process. It calls ask when it needs a snapshot of a node. It
// calls takeOver when a node renews its lease, and has a client of which another one has that
// later session. Most clients that move have closed their old connection by then. Neither may
// block or call the directory.
func New(self string, ask func(node string), takeOver func(node, client string, session uint64)) *Directory {
	return &Directory{self: self, ask: ask, takeOver: takeOver,
		nodes: map[string]*view{}, places: map[string]Place{}, double: map[string][]string{}}
}

// view returns the view of a node. d.mu is held.
func (d *Directory) view(node string) *view {
	v := d.nodes[node]
	if v == nil {
		v = &view{}
		d.nodes[node] = v
	}
	return v
}

// Apply takes a batch. If one before it is missing, it waits for a snapshot.
func (d *Directory) Apply(b Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.view(b.Node)
	switch {
	case b.Epoch < v.epoch || b.Epoch <= v.ended:
		return // of a lease that has ended
	case b.Part == 1:
		if b.Epoch > v.epoch || v.clients == nil {
			d.clear(b.Node, v)
			v.clients, v.announced = map[string]uint64{}, 0
		}
		v.epoch, v.chained, v.synced, v.fresh = b.Epoch, true, false, map[string]uint64{}
	case !v.chained || b.Epoch != v.epoch || b.Seq != v.seq+1:
		d.Gaps.Add(1)
		v.chained, v.synced = false, false
		d.want(b.Node, v)
		return
	}
	v.seq = b.Seq
	for _, c := range slices.Concat(b.Here, b.Changes) {
		d.change(b.Node, v, c)
	}
	if b.Last {
		for client := range v.clients {
			if _, still := v.fresh[client]; !still {
				delete(v.clients, client)
				d.settle(client, b.Node)
			}
		}
		v.synced, v.clients, v.fresh = true, v.fresh, nil
	}
}

// change takes an arrival or an end. d.mu is held.
func (d *Directory) change(node string, v *view, c Change) {
	if c.Why != "" {
		delete(v.fresh, c.Client)
		delete(v.clients, c.Client)
		d.settle(c.Client, node)
		return
	}
	v.clients[c.Client] = c.Session
	if v.fresh != nil {
		v.fresh[c.Client] = c.Session
	}
	d.settle(c.Client, node)
}

// settle finds where a client is, after a node has told something of it. d.mu is held.
func (d *Directory) settle(client, node string) {
	p, known := d.places[client]
	nodes := d.double[client]
	if nodes == nil && known && p.Node != node {
		nodes = []string{p.Node}
	}
	if len(nodes) == 0 { // no other node has it
		if s, has := d.nodes[node].clients[client]; has {
			d.places[client] = Place{node, s}
		} else {
			delete(d.places, client)
		}
		return
	}
	if !slices.Contains(nodes, node) {
		nodes = append(nodes, node)
	}
	var last Place
	nodes = slices.DeleteFunc(nodes, func(node string) bool {
		s, has := d.nodes[node].clients[client]
		if p := (Place{node, s}); has && p.after(last) {
			last = p
		}
		return !has
	})
	d.places[client], d.double[client] = last, nodes
	if len(nodes) < 2 {
		delete(d.double, client)
	}
	if len(nodes) == 0 {
		delete(d.places, client)
	}
}

// clear takes all clients from what a node has. d.mu is held.
func (d *Directory) clear(node string, v *view) {
	all := v.clients
	v.clients = nil
	for client := range all {
		d.settle(client, node)
	}
}

// want asks for a snapshot, but not all the time. d.mu is held.
func (d *Directory) want(node string, v *view) {
	if time.Since(v.asked) > askEvery {
		v.asked = time.Now()
		d.Snapshots.Add(1)
		d.ask(node)
	}
}

// askEvery is how often a node is asked for a snapshot, at most.
const askEvery = time.Second / 3

// Renewed takes the renewal of a lease, and the last batch that the node had told then. If that
// one has not come when the lease is renewed again, it is lost. A lease that was taken for gone
// lives if it is renewed: a watch that begins can miss an entry that is replaced at that moment,
// which comes a little later.
func (d *Directory) Renewed(node string, epoch, seq uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.view(node)
	if epoch < v.ended {
		return
	}
	v.ended = min(v.ended, epoch-1)
	if epoch > v.epoch {
		v.epoch, v.chained, v.synced, v.announced = epoch, false, false, 0
	} else if v.seq < v.announced {
		v.chained, v.synced = false, false
	}
	if !v.chained {
		d.want(node, v)
	}
	v.announced = seq
	for client, nodes := range d.double {
		if p := d.places[client]; p.Node != node && slices.Contains(nodes, node) {
			d.takeOver(node, client, p.Session)
		}
	}
}

// CatchUp has the directory not be complete until the next snapshot of its own process has come,
// and so all that was under way before. The process calls it when it has lost its lease: it may
// have been stopped.
func (d *Directory) CatchUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.view(d.self)
	v.chained, v.synced = false, false
}

// Doubt has the directory not be complete until it has a new snapshot of each node. The process
// calls it when something may have been lost: its connection to the engine has broken.
func (d *Directory) Doubt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.nodes {
		v.chained, v.synced = false, false
	}
}

// Expired takes the end of all leases of a node up to an epoch.
func (d *Directory) Expired(node string, epoch uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.view(node)
	v.ended = max(v.ended, epoch)
	if v.epoch <= v.ended {
		d.clear(node, v)
		v.chained, v.synced, v.fresh = false, false, nil
	}
}

// Find returns where a client is.
func (d *Directory) Find(client string) (Place, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	p, ok := d.places[client]
	return p, ok
}

// Complete reports whether nothing is missing that a node with a lease has told. A node is the
// process of this directory itself. So one that was stopped is not complete until it has caught
// up: its own snapshot comes to it after all that it had missed.
func (d *Directory) Complete() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, v := range d.nodes {
		if v.epoch > v.ended && !v.synced {
			return false
		}
	}
	self := d.nodes[d.self]
	return self != nil && self.synced
}

// Size returns how many clients are known.
func (d *Directory) Size() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return len(d.places)
}

// Known returns how many clients each node with a lease has.
func (d *Directory) Known() map[string]int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	all := map[string]int{}
	for name, v := range d.nodes {
		if v.epoch > v.ended {
			all[name] = len(v.clients)
		}
	}
	return all
}
