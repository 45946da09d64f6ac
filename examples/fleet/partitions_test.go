package main

import (
	"testing"

	"github.com/idlewheel/idlewheel/examples/fleet/directory"
)

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
