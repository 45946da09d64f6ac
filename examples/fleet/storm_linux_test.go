//go:build proof

package main

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/idlewheel/idlewheel/examples/fleet/wire"
)

// TestFullNode: ten times as many clients as a node admits, and more than it has descriptors for,
// connect all at once, and again when they are refused. The node serves on: each loop of gnet
// accepts for itself, and closes newcomers before it accepts the next ones.
func TestFullNode(t *testing.T) {
	engine, err := startEngine(t.TempDir(), -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Shutdown)
	p, c := startAlone(t, engine.ClientURL())
	mustShow(t, c.Ops, "fleet_ready", 1)
	limit := unix.Rlimit{Cur: 250, Max: 250}
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	defer close(over)
	for i := range 10 * c.Most {
		go func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if conn, err := net.Dial("tcp", c.Address); err == nil {
					conn.SetDeadline(time.Now().Add(time.Second))
					conn.Write(wire.NewHello(clientName(i), 1).Append(nil))
					conn.Read(make([]byte, 1))
					conn.Close()
				}
			}
		}()
	}
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	select {
	case err := <-ended:
		t.Error("the node has ended: ", err)
	case <-time.After(3 * time.Second):
	}
}
