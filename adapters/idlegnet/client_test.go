//go:build proof

package idlegnet

import (
	"net"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// client runs a gnet client with h, wrapped, until the end of the test.
func client(t *testing.T, h *handler, p idle.Policy) (*gnet.Client, *server) {
	t.Helper()
	h.opened, h.closed = make(chan gnet.Conn, 10), make(chan closing, 10)
	h.wrapped = wrap(t, h, p, nil)
	cli, err := gnet.NewClient(h.wrapped, gnet.WithLogger(silent{}))
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
	return cli, &server{Handler: h.wrapped, handler: h}
}

// TestClient has a gnet client time out servers that say nothing. It starts though its OnBoot
// returns Shutdown, which gnet ignores for clients.
func TestClient(t *testing.T) {
	const limit = 50 * ms
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": t.TempDir() + "/s"} {
		t.Run(network, func(t *testing.T) {
			at := listen(t, network, address).Addr().String()
			cli, s := client(t, &handler{boot: func(gnet.Engine) gnet.Action { return gnet.Shutdown }}, idle.Policy{ReadTimeout: limit})
			begun := time.Now()
			c, err := cli.Dial(network, at)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.wantTimeout(t, idle.ReasonRead, begun, limit); got.c != c {
				t.Error("it was another connection")
			}
			begun = time.Now()
			nc, err := net.Dial(network, at)
			if err != nil {
				t.Fatal(err)
			}
			if c, err = cli.EnrollContext(nc, "mine"); err != nil {
				t.Fatal(err)
			}
			if c.SafeContext() != "mine" {
				t.Error("its context was touched")
			}
			s.wantTimeout(t, idle.ReasonRead, begun, limit)
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
	arrived := make(chan string, 1)
	cli, s := client(t, &handler{traffic: func(c gnet.Conn) gnet.Action {
		b, _ := c.Next(-1)
		arrived <- string(b)
		return gnet.None
	}}, idle.Policy{IdleTimeout: 20 * ms})
	c, err := cli.Dial("udp", pc.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	receive(t, s.opened)
	c.Write([]byte("ping"))
	_, from, err := pc.ReadFrom(make([]byte, 10))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * ms)
	pc.WriteTo([]byte("pong"), from)
	if got := receive(t, arrived); got != "pong" || len(s.closed) > 0 || s.Stats().Tracked > 0 {
		t.Errorf("it got %q, %d closed, %d tracked", got, len(s.closed), s.Stats().Tracked)
	}
}

// TestEnrollIntoServer has a server's loop take a connection that it dialled.
func TestEnrollIntoServer(t *testing.T) {
	s := serve(t, &handler{}, idle.Policy{IdleTimeout: 50 * ms}, nil, gnet.WithNumEventLoop(2), gnet.WithLoadBalancing(gnet.LeastConnections))
	dial(t, s.address).Close() // so that it listens
	if got := receive(t, s.closed); got.err == nil {
		t.Error("closed without an error")
	}
	begun := time.Now()
	result, err := s.engine.Register(gnet.NewNetAddrContext(t.Context(), listen(t, "tcp", "127.0.0.1:0").Addr()))
	if err != nil {
		t.Fatal(err)
	}
	if r := receive(t, result); r.Err != nil {
		t.Fatal(r.Err)
	}
	s.wantTimeout(t, idle.ReasonIdle, begun, 50*ms)
}
