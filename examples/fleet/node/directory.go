package node

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// directory knows where every client of the fleet is. Every node has one. It is made of what
// the nodes tell, in memory only: the truth is in the nodes, which repeat it when asked.
type directory struct {
	self     string
	takeOver func(client string, session uint64) // is called if a client of this node is elsewhere
	ask      func(node string)                   // asks a node for a snapshot

	mu     sync.RWMutex // guards what follows
	places map[string]place
	nodes  map[string]*view
}

// A place is where a client is. If several nodes have a client, the greatest session is
// where it is. The client gives that number, so no clocks of nodes are compared. Among equal
// ones the name of the node decides.
type place struct {
	node    *view
	session uint64
	sweep   uint32 // the snapshot, or what followed it, that has named it
}

func (p place) before(session uint64, node string) bool {
	return p.session < session || p.session == session && p.node.name <= node
}

// A view is what is known of a node. Its lease lives if epoch is greater than ended.
type view struct {
	name    string
	lease   Lease
	epoch   uint64
	ended   uint64 // no lease up to this epoch lives
	seq     uint64 // of the last batch
	chained bool   // no batch is missing since the last snapshot began
	synced  bool   // that snapshot is complete
	sweep   uint32 // counts snapshots
	clients int
	asked   time.Time
}

func (v *view) live() bool { return v.epoch > v.ended }

func newDirectory(self string) *directory {
	return &directory{self: self, places: map[string]place{}, nodes: map[string]*view{}}
}

// view returns the view of a node. d.mu is held.
func (d *directory) view(node string) *view {
	v := d.nodes[node]
	if v == nil {
		v = &view{name: node}
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
		v.epoch, v.chained, v.synced = b.Epoch, true, false
		v.sweep++
	case !v.chained || b.Epoch != v.epoch || b.Seq != v.seq+1:
		v.chained, v.synced = false, false
		d.want(v)
		return
	}
	v.seq = b.Seq
	for _, c := range b.Here {
		d.put(c.Client, v, c.Session)
	}
	for _, c := range b.Changes {
		if c.Why == "" {
			d.put(c.Client, v, c.Session)
		} else if p := d.places[c.Client]; p.node == v && p.session == c.Session {
			d.remove(c.Client, v)
		}
	}
	if b.Last {
		v.synced = true
		d.removeAll(v, func(p place) bool { return p.sweep != v.sweep })
	}
}

// put notes that v has a client, unless it is elsewhere by a later session. d.mu is held.
func (d *directory) put(client string, v *view, session uint64) {
	p, known := d.places[client]
	if !known || p.before(session, v.name) {
		if known {
			p.node.clients--
		}
		p = place{v, session, v.sweep}
		d.places[client] = p
		v.clients++
	}
	if p.node.name != d.self {
		d.takeOver(client, p.session)
	}
}

func (d *directory) remove(client string, v *view) {
	delete(d.places, client)
	v.clients--
}

func (d *directory) removeAll(v *view, which func(place) bool) {
	for client, p := range d.places {
		if p.node == v && which(p) {
			d.remove(client, v)
		}
	}
}

// want asks for a snapshot, but not all the time. d.mu is held.
func (d *directory) want(v *view) {
	if time.Since(v.asked) > leaseEvery/3 {
		v.asked = time.Now()
		d.ask(v.name)
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
		d.want(v)
	}
	v.lease = l
}

// expired takes the end of all leases of a node up to a revision.
func (d *directory) expired(node string, revision uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire(d.view(node), revision)
}

func (d *directory) expire(v *view, revision uint64) {
	v.ended = max(v.ended, revision)
	if !v.live() {
		v.chained, v.synced = false, false
		d.removeAll(v, func(place) bool { return true })
	}
}

// epochs returns the lease of each node that has one.
func (d *directory) epochs() map[string]uint64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	all := map[string]uint64{}
	for name, v := range d.nodes {
		if v.live() {
			all[name] = v.epoch
		}
	}
	return all
}

// leases returns the leases of nodes that have one.
func (d *directory) leases() map[string]Lease {
	d.mu.RLock()
	defer d.mu.RUnlock()
	all := map[string]Lease{}
	for name, v := range d.nodes {
		if v.live() {
			all[name] = v.lease
		}
	}
	return all
}

// complete reports whether nothing is missing that a node has told.
func (d *directory) complete() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, v := range d.nodes {
		if v.live() && !v.synced {
			return false
		}
	}
	return d.nodes[d.self] != nil && d.nodes[d.self].live()
}

// find returns where a client is.
func (d *directory) find(client string) (Place, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	p, ok := d.places[client]
	if !ok {
		return Place{}, false
	}
	return Place{p.node.name, p.session}, true
}

// others returns the addresses to which a draining node sends its clients, in a fixed order.
func (d *directory) others() (addresses []string) {
	all := d.leases()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if l := all[name]; name != d.self && !l.Draining && l.Address != "" {
			addresses = append(addresses, l.Address)
		}
	}
	return addresses
}

// counts adds up the clients in the directory, by node.
func (d *directory) counts() map[string]int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	all := map[string]int{}
	for name, v := range d.nodes {
		if v.live() {
			all[name] = v.clients
		}
	}
	return all
}
