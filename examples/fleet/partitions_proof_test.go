//go:build proof

package main

import (
	"syscall"
	"testing"
)

// TestDirectoryProcesses: directories are processes of their own, each of which keeps some
// partitions, and gateways ask them. Letters come, clients are found, and none is lost when a
// directory dies, when a gateway does, and when the engine loses its store. The clients are few, as
// six processes that get too little of a busy machine can't renew their leases in time.
func TestDirectoryProcesses(t *testing.T) {
	f := populatedAt(t, options{clients: 60, partitions: 4, directories: 3}, 10)
	for _, s := range f.mustStates(t) {
		if gateway := s.Lease.Address != ""; gateway == (len(s.Keeps) > 0) {
			t.Errorf("%s keeps the partitions %v", s.Node, s.Keeps)
		}
	}
	if err := f.signal(3, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "directory1 was killed, and the others know all", func() bool {
		places, err := f.nc.Who(t.Context(), "client-1", "client-2", "client-3", "client-4", "client-5")
		return err == nil && len(places) == 5
	})
	eventually(t, "directory1 is back", func() bool { return allReady(f.mustStates(t), 6) })
	if err := f.signal(1, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node2 is back", func() bool { return allReady(f.mustStates(t), 6) })
	if err := f.connected(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Log("right again after ", mustSettle(t, f))
	if err := f.wipeScene(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustLoseNothing(t, f)
}

// TestTakeOver: a client connects to another node while its old connection is open. The
// directory of its partition has the old node end that one.
func TestTakeOver(t *testing.T) {
	f := newFleet(t, options{partitions: 4, directories: 2})
	first := f.guest(t, 0, "anna", 1)
	eventually(t, "anna is at node1", func() bool { return f.whereIs("anna") == "node1" })
	second := f.guest(t, 1, "anna", 2)
	if words := first.mustClose(t); words != "you have connected elsewhere" {
		t.Errorf("the old connection was told %q", words)
	}
	eventually(t, "anna is at node2", func() bool { return f.whereIs("anna") == "node2" })
	second.Close()
	eventually(t, "anna is nowhere", func() bool { return f.whereIs("anna") == "" })
}
