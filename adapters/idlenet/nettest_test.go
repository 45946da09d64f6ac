package idlenet

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/idlewheel/idlewheel/idle"
)

// TestConn runs the conformance tests of net.Conn with both ends wrapped.
func TestConn(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				address := "127.0.0.1:0"
				if network == "unix" {
					address = filepath.Join(t.TempDir(), "s")
				}
				a, b := socketPair(t, network, address)
				c1, c2 = wrapped(t, a, tracker, nil), wrapped(t, b, tracker, nil)
				return c1, c2, func() { c1.Close(); c2.Close() }, nil
			})
		})
	}
}
