//go:build proof && unix

package main

import (
	"syscall"
	"testing"
	"time"
)

// TestStoppedNode: a node is stopped for longer than its lease, and continues. Its clients
// are gone meanwhile, though their connections are open. Then it learns that it has lost its
// lease, and they are back.
func TestStoppedNode(t *testing.T) {
	skipShort(t)
	f := populated(t, options{clients: 600})
	before, err := f.report(question{Where: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.signal(0, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Log("gone after ", eventually(t, "the others know none of its clients", func() bool {
		return f.knownAt(t, "node2", "node1") == 0 && f.knownAt(t, "node3", "node1") == 0
	}))
	time.Sleep(7 * time.Second)
	if err := f.signal(0, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	t.Log("right again after ", mustSettle(t, f))
	after, err := f.report(question{Where: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range after.Places {
		if p != before.Places[i] {
			t.Errorf("client %d was at %+v, and is at %+v", i, before.Places[i], p)
		}
	}
	mustLoseNothing(t, f)
}

// TestTerminate: SIGTERM drains a node. The engine is somebody else's.
func TestTerminate(t *testing.T) {
	engine, err := startEngine(t.TempDir(), -1) // as with -nats
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Shutdown()
	f := populated(t, options{clients: 200, engine: engine.ClientURL()})
	if err := f.signal(1, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node2 has no clients", func() bool { return f.knownAt(t, "node1", "node2") == 0 })
	if err := f.connected(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustSettle(t, f)
	mustLoseNothing(t, f)
}
