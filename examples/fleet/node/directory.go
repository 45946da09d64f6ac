package node

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// directory knows where every client of the fleet is. Every node has one. It is made of what
// the nodes tell, in memory only: the truth is in the nodes, which repeat it when asked.
type directory struct {
	self     string
	takeOver func(client string, session uint64) // is called if a client has that session elsewhere
	ask      func(node string)                   // asks a node for a snapshot

	gaps, snapshots atomic.Uint64 // batches that were missed, and snapshots asked for

	mu     sync.RWMutex // guards what follows
	nodes  map[string]*view
	places map[string]Place    // where each client is: where its greatest session is
	double map[string]struct{} // clients that more than one node may have
}

// A view is what is known of a node. What a node has told of its clients stays apart from what
// others have told of them. So when the later of two sessions of a client ends, the other one
// is where the client is, if its node still has it.
type view struct {
	lease   Lease
	epoch   uint64
	ended   uint64            // no lease up to this epoch lives
	seq     uint64            // of the last batch
	chained bool              // no batch is missing since the last snapshot began
	synced  bool              // that snapshot is complete
	clients map[string]uint64 // sessions
	fresh   map[string]uint64 // what will be clients when the snapshot is complete
	known   int               // how many clients there are, in a copy without them
	asked   time.Time
}

func (v *view) live() bool { return v.epoch > v.ended }

func newDirectory(self string) *directory {
	return &directory{self: self, nodes: map[string]*view{}, places: map[string]Place{}, double: map[string]struct{}{}}
}

// view returns the view of a node. d.mu is held.
func (d *directory) view(node string) *view {
	v := d.nodes[node]
	if v == nil {
		v = &view{}
		d.nodes[node] = v
	}
	return v
}

// apply takes a batch. If one before it is missing, it waits for a snapshot.
func (d *directory) apply(b batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.view(b.Node)
	switch {
	case b.Epoch < v.epoch || b.Epoch <= v.ended:
		return // of a lease that has ended
	case b.Part == 1:
		if b.Epoch > v.epoch || v.clients == nil {
			d.clear(b.Node, v)
			v.clients = map[string]uint64{}
		}
		v.epoch, v.chained, v.synced, v.fresh = b.Epoch, true, false, map[string]uint64{}
	case !v.chained || b.Epoch != v.epoch || b.Seq != v.seq+1:
		d.gaps.Add(1)
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
				d.remove(b.Node, v, client)
			}
		}
		v.synced, v.clients, v.fresh = true, v.fresh, nil
	}
}

// change takes an arrival or an end. A client of this node that has a later session elsewhere
// is shed here, whichever of the two is told first. d.mu is held.
func (d *directory) change(node string, v *view, c change) {
	if c.Why != "" {
		delete(v.fresh, c.Client)
		d.remove(node, v, c.Client)
		return
	}
	v.clients[c.Client] = c.Session
	if v.fresh != nil {
		v.fresh[c.Client] = c.Session
	}
	here := Place{node, c.Session}
	p, known := d.places[c.Client]
	if known && p.Node != node {
		d.double[c.Client] = struct{}{}
	}
	if !known || p.Node == node || here.after(p) {
		p = here
		d.places[c.Client] = p
	}
	if p.Node != d.self {
		d.takeOver(c.Client, p.Session)
	}
}

// remove takes a client from what a node has. If another node may have an earlier session of
// it, all are asked. d.mu is held.
func (d *directory) remove(node string, v *view, client string) {
	delete(v.clients, client)
	if d.places[client].Node != node {
		return
	}
	delete(d.places, client)
	if _, ok := d.double[client]; !ok {
		return
	}
	delete(d.double, client)
	for other, v := range d.nodes {
		s, has := v.clients[client]
		if !has {
			continue
		}
		here := Place{other, s}
		p, known := d.places[client]
		if known {
			d.double[client] = struct{}{}
		}
		if !known || here.after(p) {
			d.places[client] = here
		}
	}
}

// clear takes all clients from what a node has. d.mu is held.
func (d *directory) clear(node string, v *view) {
	for client := range v.clients {
		d.remove(node, v, client)
	}
}

// after reports whether p is where a client is that has sessions at both places. The client
// numbers its sessions, so no clocks of nodes are compared. Among equal ones the name of the
// node decides.
func (p Place) after(other Place) bool {
	return p.Session > other.Session || p.Session == other.Session && p.Node > other.Node
}

// size returns how many clients are known.
func (d *directory) size() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return len(d.places)
}

// find returns where a client is.
func (d *directory) find(client string) (Place, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	p, ok := d.places[client]
	return p, ok
}

// want asks for a snapshot, but not all the time. d.mu is held.
func (d *directory) want(node string, v *view) {
	if time.Since(v.asked) > leaseEvery/3 {
		v.asked = time.Now()
		d.snapshots.Add(1)
		d.ask(node)
	}
}

// renewed takes a lease. One that has announced a batch a renewal ago, which has not come
// since, tells that the batch is lost.
func (d *directory) renewed(node string, l Lease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.view(node)
	if l.Epoch <= v.ended {
		return
	}
	if l.Epoch > v.epoch {
		v.epoch, v.chained, v.synced = l.Epoch, false, false
	} else if v.lease.Epoch == l.Epoch && v.seq < v.lease.Seq {
		v.chained, v.synced = false, false
	}
	if !v.chained {
		d.want(node, v)
	}
	v.lease = l
}

// doubt has the directory not answer until it has a new snapshot of each node. The node calls
// it when it may have missed something: it has lost the engine, or its lease.
func (d *directory) doubt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.nodes {
		v.chained, v.synced = false, false
	}
}

// expired takes the end of all leases of a node up to a revision.
func (d *directory) expired(node string, revision uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.view(node)
	v.ended = max(v.ended, revision)
	if !v.live() {
		d.clear(node, v)
		v.chained, v.synced, v.clients, v.fresh = false, false, nil, nil
	}
}

// live returns a copy of the view of each node that has a lease, without the clients.
func (d *directory) live() map[string]view {
	d.mu.RLock()
	defer d.mu.RUnlock()
	all := map[string]view{}
	for name, v := range d.nodes {
		if v.live() {
			one := *v
			one.known, one.clients, one.fresh = len(v.clients), nil, nil
			all[name] = one
		}
	}
	return all
}

// complete reports whether nothing is missing that a node has told.
func (d *directory) complete() bool {
	all := d.live()
	for _, v := range all {
		if !v.synced {
			return false
		}
	}
	return all[d.self].synced
}

// takers returns the leases of the nodes that take clients, in a fixed order.
func (d *directory) takers() (names []string, leases []Lease) {
	all := d.live()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if l := all[name].lease; !l.Draining && l.Address != "" {
			names, leases = append(names, name), append(leases, l)
		}
	}
	return names, leases
}

// others returns the addresses to which a draining node sends its clients.
func (d *directory) others() (addresses []string) {
	names, leases := d.takers()
	for i, l := range leases {
		if names[i] != d.self {
			addresses = append(addresses, l.Address)
		}
	}
	return addresses
}

// fewer returns the addresses of the nodes that have fewer clients than their share.
func (d *directory) fewer() (addresses []string) {
	_, leases := d.takers()
	for _, l := range leases {
		if l.Clients < share(leases) {
			addresses = append(addresses, l.Address)
		}
	}
	return addresses
}

// excess returns how many clients this node has beyond its share, or 0 if it is about right.
func (d *directory) excess() int {
	names, leases := d.takers()
	i := slices.Index(names, d.self)
	if i < 0 {
		return 0
	}
	fair := share(leases)
	if over := leases[i].Clients - fair; over > fair/10+1 {
		return over
	}
	return 0
}

// share returns how many clients each node would have if all had the same number.
func share(leases []Lease) (clients int) {
	for _, l := range leases {
		clients += l.Clients
	}
	return (clients + len(leases) - 1) / len(leases)
}
