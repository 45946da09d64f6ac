package node

import (
	"strings"
	"testing"
)

// TestShares: a node knows how many clients it has beyond its share, and which nodes have fewer.
// Nodes that are being drained neither count nor take any.
func TestShares(t *testing.T) {
	lease := func(clients int, draining bool) Lease {
		return Lease{Epoch: 1, Clients: clients, Address: "address", Draining: draining}
	}
	for _, c := range []struct {
		what   string
		leases []Lease // of n0, n1 and so on; the directory is that of n0
		excess int
		fewer  int
	}{
		{"alone", []Lease{lease(900, false)}, 0, 0},
		{"even", []Lease{lease(300, false), lease(300, false), lease(300, false)}, 0, 0},
		{"nearly even", []Lease{lease(320, false), lease(290, false), lease(290, false)}, 0, 2},
		{"one is new", []Lease{lease(450, false), lease(450, false), lease(0, false)}, 150, 1},
		{"this one is new", []Lease{lease(0, false), lease(450, false), lease(450, false)}, 0, 1},
		{"the new one is drained", []Lease{lease(450, false), lease(450, false), lease(0, true)}, 0, 0},
		{"nobody has clients", []Lease{lease(0, false), lease(0, false)}, 0, 0},
	} {
		d := newDirectory("n0")
		d.ask = func(string) {}
		for i, l := range c.leases {
			d.renewed("n"+string(rune('0'+i)), l)
		}
		if excess, fewer := d.excess(), len(d.fewer()); excess != c.excess || fewer != c.fewer {
			t.Errorf("%s: %d too many, %d nodes have fewer; want %d and %d", c.what, excess, fewer, c.excess, c.fewer)
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
					to.d.expired(a.node, a.lease.Epoch)
				}
				w.begin(a)
			default:
				session++
				a.arrive(client, session, nil)
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
func mustAgree(t *testing.T, seed uint64, d *directory) {
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

// TestHugeLimits: what is wrong with an entry is said in a few words, however long it is.
func TestHugeLimits(t *testing.T) {
	for _, text := range []string{
		strings.Repeat(" ", 900_000) + `{"idle": "3s"}`,
		`{"` + strings.Repeat("x", 900) + `": "3s"}`,
		`{"idle": "` + strings.Repeat("9", 900) + `"}`,
	} {
		if _, err := parseLimits([]byte(text)); err == nil || len(err.Error()) > 2*limitsMost {
			t.Errorf("%.20s...: %d bytes of error", text, len(err.Error()))
		}
	}
	if _, err := parseLimits([]byte(`{"handshake":"1s","idle":"3s","write":"1s"}`)); err != nil {
		t.Error(err)
	}
}
