package main

import (
	"syscall"
	"testing"

	"github.com/idlewheel/idlewheel/examples/fleet/directory"
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

// TestKeeps: every partition is kept, by two processes if there are two.
func TestKeeps(t *testing.T) {
	for _, o := range []options{{nodes: 3}, {nodes: 3, partitions: 8}, {nodes: 3, partitions: 8, directories: 1}, {nodes: 2, partitions: 8, directories: 3}, {nodes: 2, partitions: 3, directories: 8}} {
		count := map[int]int{}
		for i := range o.processCount() {
			for _, p := range o.keeps(i) {
				count[p]++
			}
		}
		want := min(2, o.directories)
		if want == 0 {
			want = o.nodes
		}
		for p := range max(1, o.partitions) {
			if count[p] != want {
				t.Errorf("%+v: partition %d has %d directories, want %d", o, p, count[p], want)
			}
		}
	}
	seen := map[int]bool{}
	for i := range 1000 {
		seen[directory.Partition(clientName(i), 32)] = true
	}
	if len(seen) != 32 {
		t.Errorf("1,000 clients are in %d of 32 partitions", len(seen))
	}
}
