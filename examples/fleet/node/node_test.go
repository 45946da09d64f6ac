package node

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func TestParseHello(t *testing.T) {
	client, session, err := parseHello("hello client-17 1764300000000000\n")
	if err != nil || client != "client-17" || session != 1764300000000000 {
		t.Errorf("%q, %d, %v", client, session, err)
	}
	for line, says := range map[string]string{
		"\n":               "hello NAME SESSION",
		"hello anna\n":     "hello NAME SESSION",
		"helo anna 1\n":    "hello NAME SESSION",
		"hello anna 1 2\n": "hello NAME SESSION",
		"hello anna -1\n":  `"-1"`,
		"hello anna.b 1\n": `"anna.b"`, // a subject would have another part
		"hello > 1\n":      `">"`,
		"hello " + strings.Repeat("a", 65) + " 1": "1 to 64",
	} {
		if _, _, err := parseHello(line); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want an error that says %s", line, err, says)
		}
	}
}

// TestTakeOver: of two sessions of a client, the one with the greater number stays.
func TestTakeOver(t *testing.T) {
	g := &gateway{clients: map[string]session{"anna": {number: 5}}}
	for _, number := range []uint64{4, 5} {
		g.takeOver("anna", number)
		if err := g.arrive("anna", session{number: number}); err == nil {
			t.Errorf("session %d arrives after 5", number)
		}
	}
	g.leave("anna", 4)
	if !g.has("anna") {
		t.Error("the end of session 4 has removed session 5")
	}
	g.leave("anna", 5)
	if g.has("anna") {
		t.Error("the end of session 5 hasn't removed it")
	}
	if err := g.arrive("anna", session{number: 1}); err != nil || !g.has("anna") {
		t.Errorf("nobody is there, and session 1 doesn't arrive: %v", err)
	}
}

// An entry is one of the bucket of leases.
type entry struct {
	jetstream.KeyValueEntry
	key   string
	op    jetstream.KeyValueOp
	lease Lease
}

func (e entry) Key() string                     { return e.key }
func (e entry) Operation() jetstream.KeyValueOp { return e.op }
func (e entry) Value() []byte                   { text, _ := json.Marshal(e.lease); return text }

// TestFollow: a roster has the addresses of the nodes that take clients.
func TestFollow(t *testing.T) {
	a, b, draining, roster := Lease{Address: "a:1", Open: true}, Lease{Address: "b:1", Open: true}, Lease{Address: "a:1"}, map[string]string{}
	for i, step := range []struct {
		entry
		want map[string]string
	}{
		{entry{key: "node1", lease: a}, map[string]string{"node1": "a:1"}},
		{entry{key: "node2", lease: b}, map[string]string{"node1": "a:1", "node2": "b:1"}},
		{entry{key: "node1", lease: draining}, map[string]string{"node2": "b:1"}},
		{entry{key: "node1", lease: a}, map[string]string{"node1": "a:1", "node2": "b:1"}},
		{entry{key: "node2", op: jetstream.KeyValuePurge}, map[string]string{"node1": "a:1"}}, // expired
		{entry{key: "node1", op: jetstream.KeyValueDelete}, map[string]string{}},
	} {
		if follow(roster, step.entry); !maps.Equal(roster, step.want) {
			t.Errorf("after step %d: %v, want %v", i, roster, step.want)
		}
	}
}

// TestElsewhere: each of the other nodes gets the same share of the clients.
func TestElsewhere(t *testing.T) {
	n := new(node)
	if a := n.elsewhere(); a != "" {
		t.Errorf("no node is known, and clients are sent to %q", a)
	}
	n.others.Store(&[]string{"a:1", "b:1", "c:1"})
	shares := map[string]int{}
	for range 30 {
		shares[n.elsewhere()]++
	}
	if want := map[string]int{"a:1": 10, "b:1": 10, "c:1": 10}; !maps.Equal(shares, want) {
		t.Errorf("the nodes get %v", shares)
	}
}
