package netconn

import (
	"io"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestSpliceFromOneThatTimesOut: the source may do so after its input was seen
// and before it is taken, and the error says so.
func TestSpliceFromOneThatTimesOut(t *testing.T) {
	policy := idle.Policy{IdleTimeout: time.Minute}
	server, client := connect(t, policy, idle.Hooks{})
	dst, _ := connect(t, policy, idle.Hooks{})
	client.Write([]byte("x"))
	s, _ := socketOf(server, server)
	_, err := s.spliceTo(1, func(r io.Reader) (int64, error) {
		server.expire(&idle.TimeoutError{Reason: idle.ReasonIdle})
		return dst.bare().(io.ReaderFrom).ReadFrom(r)
	})
	wantTimeout(t, err, idle.ReasonIdle)
}
