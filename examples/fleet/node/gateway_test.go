package node

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestPost posts letters that fit into a frame with the receiver's name, but not with the
// longer name of the sender. They are dropped.
func TestPost(t *testing.T) {
	n := &Node{name: "node1", nc: &Fleet{name: "fleet"}, directory: newDirectory("node1"), outbox: make(chan *nats.Msg, 2)}
	n.directory.places["b"] = Place{"node2", 1}
	text := make([]byte, maxFrame-1-8-1-len("b")) // it fits with the name of the receiver
	n.post(Message, "a", Letter{Name: "b", Text: text})
	if len(n.outbox) != 1 || n.dropped.Load() != 0 {
		t.Fatalf("%d were sent, %d dropped; want 1, 0", len(n.outbox), n.dropped.Load())
	}
	_, frame, _ := cutName((<-n.outbox).Data)
	if size, err := sizeOf(frame); err != nil || size != maxFrame {
		t.Errorf("the frame has %d bytes, %v", size, err)
	}
	n.post(Message, "anna", Letter{Name: "b", Text: text})
	if len(n.outbox) != 0 || n.dropped.Load() != 1 {
		t.Errorf("%d were sent, %d dropped; want 0, 1", len(n.outbox), n.dropped.Load())
	}
}

// TestClientNames: only names that JSON has as they are get in.
func TestClientNames(t *testing.T) {
	long := strings.Repeat("x", maxName)
	for _, name := range []string{"a", "client-17", "A.b_C-9", long} {
		got, session, ok := parseHello(NewHello(name, 7).Body)
		if got != name || session != 7 || !ok {
			t.Errorf("%q is %q, %d, %t", name, got, session, ok)
		}
	}
	for _, name := range []string{"", long + "x", "a b", "a\n", "<a>", "a\"", "\x00", "\xff", "\u00e4", "\ufffd"} {
		if _, _, ok := parseHello(NewHello(name, 7).Body); ok {
			t.Errorf("%q is taken", name)
		}
	}
	if _, _, ok := parseHello(make([]byte, 7)); ok {
		t.Error("a hello without a session is taken")
	}
}

// TestNodeName: a name that cannot be part of a subject is refused.
func TestNodeName(t *testing.T) {
	for _, name := range []string{"", "node.1", "node 1", "node*", ">"} {
		if err := Run(Config{Name: name}); err == nil || !strings.Contains(err.Error(), "Config.Name") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestDrainNowhere: a node is not drained if its clients have nowhere to go.
func TestDrainNowhere(t *testing.T) {
	n := &Node{name: "node1", nc: &Fleet{name: "fleet"}, directory: newDirectory("node1")}
	n.directory.ask = func(string) {}
	n.directory.renewed("node1", Lease{Epoch: 1, Address: "a"})
	n.directory.renewed("node2", Lease{Epoch: 2, Address: "b", Draining: true})
	if err := n.drain(time.Second, false); err == nil || n.draining.Load() {
		t.Errorf("%v, draining %t", err, n.draining.Load())
	}
	n.directory.renewed("node3", Lease{Epoch: 3, Address: "c"})
	if got := n.directory.others(); !slices.Equal(got, []string{"c"}) {
		t.Errorf("others are %v", got)
	}
}
