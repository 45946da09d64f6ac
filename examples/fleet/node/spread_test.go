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
		leases []Lease // of n0, n1 and so on; asked for n0
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
		r := roster{leases: map[string]Lease{}}
		for i, l := range c.leases {
			r.set("n"+string(rune('0'+i)), l)
		}
		if excess, fewer := r.excess("n0"), len(r.fewer()); excess != c.excess || fewer != c.fewer {
			t.Errorf("%s: %d too many, %d nodes have fewer; want %d and %d", c.what, excess, fewer, c.excess, c.fewer)
		}
	}
}

// TestHugeLimits: what is wrong with an entry is said in a few words, however long it is.
func TestHugeLimits(t *testing.T) {
	for _, text := range []string{
		strings.Repeat(" ", 900_000) + `{"idle": "3s"}`,
		`{"` + strings.Repeat("x", 900) + `": "3s"}`,
		`{"idle": "` + strings.Repeat("9", 900_000) + `"}`,
	} {
		if _, err := parseLimits([]byte(text)); err == nil || len(err.Error()) > 2*limitsMost {
			t.Errorf("%.20s...: %d bytes of error", text, len(err.Error()))
		}
	}
	if _, err := parseLimits([]byte(`{"handshake":"1s","idle":"3s","write":"1s"}`)); err != nil {
		t.Error(err)
	}
}
