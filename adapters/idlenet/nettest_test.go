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
			policy := idle.Policy{IdleTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
			tracker := newTracker(t, policy)
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				address := "127.0.0.1:0"
				if network == "unix" {
					address = filepath.Join(t.TempDir(), "s")
				}
				bare, err := net.Listen(network, address)
				if err != nil {
					return nil, nil, nil, err
				}
				ln, err := Wrap(bare, policy, nil)
				if err != nil {
					return nil, nil, nil, err
				}
				defer ln.Close()
				dialled, err := net.Dial(network, ln.Addr().String())
				if err != nil {
					return nil, nil, nil, err
				}
				c1, err = wrapConn(dialled, tracker, nil)
				if err != nil {
					return nil, nil, nil, err
				}
				c2, err = ln.Accept()
				return c1, c2, func() { c1.Close(); c2.Close() }, err
			})
		})
	}
}
