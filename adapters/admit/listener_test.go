package admit

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// A proxied is a connection behind the PROXY protocol: RemoteAddr waits for the header.
type proxied struct {
	net.Conn
	from   net.Addr
	header chan struct{} // closed when the header has come, or the connection is closed
	come   func()
}

func (p *proxied) RemoteAddr() net.Addr { <-p.header; return p.from }
func (p *proxied) Close() error         { p.come(); return p.Conn.Close() }

// newProxied returns a connection whose client has sent a byte after the header.
func newProxied(t *testing.T, from string) *proxied {
	server, client := net.Pipe()
	p := &proxied{Conn: server, from: tcpAddr(from), header: make(chan struct{})}
	p.come = sync.OnceFunc(func() { close(p.header) })
	t.Cleanup(func() { client.Close() })
	go func() { <-p.header; client.Write([]byte("x")) }()
	return p
}

// A queue is a listener whose connections come from a channel.
type queue chan net.Conn

func (q queue) Accept() (net.Conn, error) { return <-q, nil }
func (q queue) Close() error              { return nil }
func (q queue) Addr() net.Addr            { return nil }

func accept(t *testing.T, g *Gate, nc net.Conn) net.Conn {
	t.Helper()
	q := make(queue, 1)
	q <- nc
	c, err := g.Listener(q).Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A connection with an unknown address counts, but has a key only from its first Read on.
func TestLateAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Limits{PerKey: 1})
		var conns []net.Conn
		var headers []*proxied
		for range 3 {
			p := newProxied(t, "192.0.2.1:1")
			headers, conns = append(headers, p), append(conns, accept(t, g, p))
		}
		wantStats(t, g, Stats{Open: 3})
		setLimits(t, g, Limits{PerKey: 1, Key: func(a net.Addr) string { return a.String() }}) // has no nil addr
		for _, p := range headers {
			p.come()
		}
		synctest.Wait()
		b := make([]byte, 1)
		if n, err := conns[1].Read(b); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		for range 2 {
			if n, err := conns[0].Read(b); n != 0 || !errors.Is(err, ErrRefused) {
				t.Fatalf("a refused connection reads %d bytes, %v", n, err)
			}
		}
		wantStats(t, g, Stats{Open: 2, PerKey: 1})
		conns[1].Close()
		if n, err := conns[2].Read(b); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		for range 2 {
			conns[0].Close()
			conns[2].Close()
		}
		wantStats(t, g, Stats{PerKey: 1})
		if _, counted := g.perKey["192.0.2.1:1"]; counted {
			t.Errorf("left: %v", g.perKey)
		}
	})
}

// A Close while the first Read waits ends the count.
func TestCloseBesideFirstRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Limits{PerKey: 1})
		c := accept(t, g, newProxied(t, "192.0.2.1:1"))
		result := make(chan error)
		go func() { _, err := c.Read(make([]byte, 1)); result <- err }()
		synctest.Wait() // Read waits for the header
		c.Close()
		if err := <-result; err == nil {
			t.Error("Read of a closed connection succeeds")
		}
		wantStats(t, g, Stats{})
	})
}

// In whatever order Accept, Read, Close and SetLimits come, no count is left. For the race detector.
func TestAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Limits{PerKey: 1})
		for i := range 500 {
			p := newProxied(t, "192.0.2.1:1")
			c := accept(t, g, p)
			p.come()
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() { c.Read(make([]byte, 1)) })
				all.Go(func() { c.Close() })
			}
			all.Go(func() { setLimits(t, g, Limits{PerKey: i % 3, Key: net.Addr.String}) })
			other := accept(t, g, newProxied(t, "192.0.2.1:2"))
			all.Wait()
			if other.Close(); g.Stats().Open != 0 || g.perKey["192.0.2.1:1"] != 0 {
				t.Fatalf("left: %+v, %v", g.Stats(), g.perKey)
			}
		}
	})
}

// A socket keeps its methods. Package idlenet finds it, and treats it as it does a bare one: it
// half-closes it, and asks the kernel how many bytes wait in it.
func TestSockets(t *testing.T) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		t.Run(network, func(t *testing.T) {
			g := newGate(t, Limits{})
			bare, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			ln := g.Listener(bare)
			defer ln.Close()
			wrapped, err := idlenet.Wrap(ln, idle.Policy{WriteTimeout: time.Hour}, nil)
			if err != nil {
				t.Fatal(err)
			}
			connect := func(ln net.Listener) (server, client net.Conn) {
				if client, err = net.Dial(network, bare.Addr().String()); err != nil {
					t.Fatal(err)
				}
				if server, err = ln.Accept(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { server.Close(); client.Close() })
				return server, client
			}
			server, client := connect(ln)
			_, reads := server.(io.ReaderFrom)
			_, halves := server.(interface{ CloseWrite() error })
			if _, ok := server.(syscall.Conn); !ok || !halves || reads != (network == "tcp") {
				t.Errorf("%T lacks methods", server)
			}
			wantStats(t, g, Stats{Open: 1})
			server.Close()
			server.Close()
			wantStats(t, g, Stats{})
			if _, err := client.Read(make([]byte, 1)); err != io.EOF {
				t.Error(err)
			}

			server, _ = connect(wrapped)
			c := server.(*idlenet.Conn)
			switch c.NetConn().(type) {
			case *net.TCPConn, *net.UnixConn:
			default:
				t.Errorf("the socket inside is a %T", c.NetConn())
			}
			if err := c.CloseWrite(); err != nil {
				t.Error(err)
			}
			wantStats(t, g, Stats{Open: 1})
			c.Close()
			wantStats(t, g, Stats{})

			if kernel.SeesOutput {
				server, _ = connect(wrapped)
				go server.Write(make([]byte, 64<<20)) // the client doesn't read
				for unsent := 0; unsent == 0; {
					if err := wrapped.Tracker().Visit(t.Context(), func(i idle.Info) { unsent = i.Unsent() }); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}
