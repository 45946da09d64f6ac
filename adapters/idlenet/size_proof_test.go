//go:build proof

package idlenet

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestAllocatedByInit pins all that a connection takes: the Conn, a place in a slice of its
// shard, which doubles now and then, and on Linux a kernel.Stream of 24 bytes.
func TestAllocatedByInit(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skip("it is of 64-bit systems")
	}
	tracker, err := idle.New(idle.Policy{IdleTimeout: time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tracker.Close()
	setup := newSetup(nil)
	bare, _ := tcpPair(t)
	const most = 208 + 24 + 48
	all := make([]*Conn, 10_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range all {
		all[i] = new(Conn)
		if err := all[i].conn().Init(bare, tracker, all[i], &setup.Setup); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / uint64(len(all)); each > most {
		t.Errorf("a connection takes %d bytes, at most %d are allowed", each, most)
	}
}
