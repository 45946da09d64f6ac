//go:build proof && linux && !386 && !s390x && !idleother

package idlenet

import (
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// unsent returns how many bytes wait for the peers of a tracker's connections, without those for
// which none do.
func unsent(t *testing.T, tracker *idle.Tracker) map[any]int {
	t.Helper()
	waiting := map[any]int{}
	if err := tracker.Visit(t.Context(), func(i idle.Info) {
		if n := i.Unsent(); n > 0 {
			waiting[i.Owner] = n
		}
	}); err != nil {
		t.Fatal(err)
	}
	return waiting
}

// TestUnsentIsCounted: a visit finds how many bytes wait for a peer that doesn't read.
func TestUnsentIsCounted(t *testing.T) {
	t.Parallel()
	tracker := newTracker(t, idle.Policy{WriteTimeout: time.Hour})
	connect(t, tracker, nil) // for this one nothing waits
	server, client := connect(t, tracker, nil)
	done := make(chan error)
	go func() { _, err := server.Write(make([]byte, 32<<20)); done <- err }()
	eventually(t, "bytes wait for the client", func() bool {
		waiting := unsent(t, tracker)
		return len(waiting) == 1 && waiting[server] >= 1000
	})
	go readAll(net.Conn(client))
	if err := <-done; err != nil {
		t.Error(err)
	}
	eventually(t, "the client has read what was in the kernel's buffers", func() bool {
		return len(unsent(t, tracker)) == 0
	})
}
