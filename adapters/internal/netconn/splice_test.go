package netconn

import (
	"io"
	"math"
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// TestSpliceFromOneThatTimesOut: the source may do so after its input was seen
// and before it is taken, and the error says so.
func TestSpliceFromOneThatTimesOut(t *testing.T) {
	if !kernel.SeesOutput {
		t.Skip("splice is Linux's")
	}
	policy := idle.Policy{IdleTimeout: time.Minute}
	server, client := connect(t, policy, idle.Hooks{})
	dst, far := connect(t, policy, idle.Hooks{})
	go io.Copy(io.Discard, far)
	if _, err := client.Write(make([]byte, 3*fewBytes)); err != nil {
		t.Fatal(err)
	}
	moves := 0
	_, err := server.setup.splice(dst, server, server.setup.socketOf(server), math.MaxInt64, func(r io.Reader) (int64, error) {
		moves++
		server.expire(&idle.TimeoutError{Reason: idle.ReasonIdle})
		return dst.bare().(*net.TCPConn).ReadFrom(r)
	})
	wantTimeout(t, err, idle.ReasonIdle)
	if moves != 1 {
		t.Errorf("%d splices", moves)
	}
}
