package netconn

import (
	"io"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// The first look at the queue of a write says that it moves. That the queue of the
// write before was as long is no answer.
func TestQueueOfEachWriteIsLookedAtAnew(t *testing.T) {
	server, client := connect(t, idle.Policy{WriteTimeout: time.Minute}, idle.Hooks{})
	go io.Copy(io.Discard, client)
	for range 2 {
		if !server.movedSince(7) {
			t.Error("it has not moved at the first look")
		}
		if server.movedSince(7) {
			t.Error("it has moved, though it is as it was")
		}
		if _, err := server.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
}
