package node

import (
	"maps"
	"slices"
	"sync"
)

// A roster has the leases of all processes of the fleet.
type roster struct {
	mu     sync.Mutex
	leases map[string]Lease // by name
}

func (r *roster) set(name string, l Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leases[name] = l
}

func (r *roster) remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leases, name)
}

func (r *roster) all() map[string]Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.leases)
}

// takers returns the leases of the nodes that take clients, in a fixed order.
func (r *roster) takers() (names []string, leases []Lease) {
	all := r.all()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if l := all[name]; !l.Draining && l.Address != "" {
			names, leases = append(names, name), append(leases, l)
		}
	}
	return names, leases
}

// others returns the addresses to which a node sends its clients that is being drained.
func (r *roster) others(self string) (addresses []string) {
	names, leases := r.takers()
	for i, l := range leases {
		if names[i] != self {
			addresses = append(addresses, l.Address)
		}
	}
	return addresses
}

// fewer returns the addresses of the nodes that have fewer clients than their share.
func (r *roster) fewer() (addresses []string) {
	_, leases := r.takers()
	for _, l := range leases {
		if l.Clients < share(leases) {
			addresses = append(addresses, l.Address)
		}
	}
	return addresses
}

// excess returns how many clients a node has beyond its share, or 0 if it is about right.
func (r *roster) excess(self string) int {
	names, leases := r.takers()
	i := slices.Index(names, self)
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
