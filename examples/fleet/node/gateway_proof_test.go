//go:build proof

package node

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/examples/fleet/directory"
	"github.com/idlewheel/idlewheel/examples/fleet/wire"
)

// testNode returns a gateway that has not joined, and keeps a directory.
func testNode() *Node {
	n := &Node{nc: &Fleet{name: "fleet"}}
	n.peer = newPeer(Config{Name: "node1", Address: "a", Keeps: []int{0}}, n.lease)
	n.engine = n.nc
	return n
}

// TestPost posts letters that fit into a frame with the receiver's name, but not with the
// longer name of the sender. They are dropped.
func TestPost(t *testing.T) {
	n := testNode()
	n.directories[0].Apply(directory.Batch{Node: "node2", Epoch: 1, Seq: 1, Part: 1, Last: true, Here: []directory.Change{{Client: "b", Session: 1}}})
	text := make([]byte, wire.MaxFrame-1-8-1-len("b")) // it fits with the name of the receiver
	n.post(wire.Message, "a", wire.Letter{Name: "b", Text: text})
	if len(n.outbox) != 1 || n.dropped.Load() != 0 {
		t.Fatalf("%d were sent, %d dropped; want 1, 0", len(n.outbox), n.dropped.Load())
	}
	_, frame, _ := wire.CutName((<-n.outbox).Data)
	if size, err := wire.SizeOf(frame); err != nil || size != wire.MaxFrame {
		t.Errorf("the frame has %d bytes, %v", size, err)
	}
	n.post(wire.Message, "anna", wire.Letter{Name: "b", Text: text})
	if len(n.outbox) != 0 || n.dropped.Load() != 1 {
		t.Errorf("%d were sent, %d dropped; want 0, 1", len(n.outbox), n.dropped.Load())
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
	n := testNode()
	n.gateway = &gateway{n: n}
	n.roster.set("node1", Lease{Epoch: 1, Address: "a"})
	n.roster.set("node2", Lease{Epoch: 2, Address: "b", Draining: true})
	if err := n.drain(time.Second, false); err == nil || n.draining.Load() {
		t.Errorf("%v, draining %t", err, n.draining.Load())
	}
	n.roster.set("node3", Lease{Epoch: 3, Address: "c"})
	if got := n.roster.others("node1"); !slices.Equal(got, []string{"c"}) {
		t.Errorf("others are %v", got)
	}
}
