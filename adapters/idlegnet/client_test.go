//go:build proof

package idlegnet

import (
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// client runs a gnet client with the handler until the end of the test.
func client(t *testing.T, h gnet.EventHandler) *gnet.Client {
	t.Helper()
	cli, err := gnet.NewClient(h, gnet.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := cli.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cli.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cli
}

// TestClient has a gnet client time out servers that say nothing.
func TestClient(t *testing.T) {
	const limit = 50 * ms
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			address := "127.0.0.1:0"
			if network == "unix" {
				address = t.TempDir() + "/s"
			}
			ln, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			go func() {
				var open []net.Conn // or the collector would close them
				for {
					c, err := ln.Accept()
					if err != nil {
						runtime.KeepAlive(open)
						return
					}
					open = append(open, c)
				}
			}()
			closed, onClose := closings()
			cli := client(t, wrap(t, &handler{close: onClose}, idle.Policy{ReadTimeout: limit}, nil))
			begun := time.Now()
			c, err := cli.Dial(network, ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			got := receive(t, closed)
			expectTimeout(t, got, idle.ReasonRead, begun, limit)
			if got.c != c {
				t.Error("it was another connection")
			}
			begun = time.Now()
			nc, err := net.Dial(network, ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if c, err = cli.EnrollContext(nc, "mine"); err != nil {
				t.Fatal(err)
			}
			if c.SafeContext() != "mine" {
				t.Error("its context was touched")
			}
			expectTimeout(t, receive(t, closed), idle.ReasonRead, begun, limit)
		})
	}
}

// TestClientUDP has a client's UDP connection, which has an OnOpen, pass.
func TestClientUDP(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	closed, onClose := closings()
	arrived := make(chan string, 1)
	h := wrap(t, &handler{close: onClose, traffic: func(c gnet.Conn) gnet.Action {
		b, _ := c.Next(-1)
		arrived <- string(b)
		return gnet.None
	}}, idle.Policy{IdleTimeout: 20 * ms}, nil)
	c, err := client(t, h).Dial("udp", pc.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.Write([]byte("ping"))
	b := make([]byte, 10)
	_, from, err := pc.ReadFrom(b)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * ms)
	pc.WriteTo([]byte("pong"), from)
	if got := receive(t, arrived); got != "pong" || len(closed) > 0 || h.Stats().Tracked > 0 {
		t.Errorf("it got %q, %d closed, %d tracked", got, len(closed), h.Stats().Tracked)
	}
}

// TestClientThatRefusesToBoot starts all the same, and has its timeouts.
func TestClientThatRefusesToBoot(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	closed, onClose := closings()
	h := wrap(t, &handler{close: onClose, boot: func(gnet.Engine) gnet.Action { return gnet.Shutdown }},
		idle.Policy{IdleTimeout: 20 * ms}, nil)
	begun := time.Now()
	if _, err := client(t, h).Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	expectTimeout(t, receive(t, closed), idle.ReasonIdle, begun, 20*ms)
}

// TestEnrollIntoServer has a server's loop take a connection that it dialled.
func TestEnrollIntoServer(t *testing.T) {
	closed, onClose := closings()
	s := serve(t, &handler{close: onClose}, idle.Policy{IdleTimeout: 50 * ms}, nil, tcp(),
		gnet.WithNumEventLoop(2), gnet.WithLoadBalancing(gnet.LeastConnections))
	dial(t, s.address).Close() // so that it listens
	if got := receive(t, closed); got.err == nil {
		t.Error("closed without an error")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	begun := time.Now()
	result, err := s.engine.Register(gnet.NewNetAddrContext(t.Context(), ln.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	if r := receive(t, result); r.Err != nil {
		t.Fatal(r.Err)
	}
	expectTimeout(t, receive(t, closed), idle.ReasonIdle, begun, 50*ms)
}
