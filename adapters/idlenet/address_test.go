package idlenet

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A proxied is a connection behind the PROXY protocol: RemoteAddr waits for the header.
type proxied struct {
	net.Conn
	header chan struct{} // closed when it has come
	closed chan struct{} // closed at the end of the test
	from   net.Addr
}

func (p *proxied) RemoteAddr() net.Addr {
	select {
	case <-p.header:
		return p.from
	case <-p.closed:
		return p.Conn.RemoteAddr()
	}
}

// A line is a listener whose connections come from a channel.
type line struct {
	net.Listener
	conns chan net.Conn
}

func (l line) Accept() (net.Conn, error) { return <-l.conns, nil }

// A proxy is a listener behind the PROXY protocol, in a bubble.
type proxy struct {
	*testing.T
	tracker *idle.Tracker
	*Listener
	line line
}

// behindProxy runs test with connections that have a timeout of a minute.
func behindProxy(t *testing.T, opts idle.Options, test func(p *proxy)) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{IdleTimeout: time.Minute}, &opts)
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		from := line{conns: make(chan net.Conn)}
		test(&proxy{t, tracker, share(t, from, tracker, nil), from})
	})
}

// accept returns a connection whose header has not come yet.
func (p *proxy) accept(from string) (c *Conn, at *proxied) {
	nc, client := net.Pipe()
	at = &proxied{nc, make(chan struct{}), make(chan struct{}), net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))}
	p.Cleanup(func() { close(at.closed) })
	p.Cleanup(func() { client.Close() })
	go func() { p.line.conns <- at }()
	p.atOnce("Accept", func() {
		nc, err := p.Accept()
		if err != nil {
			p.Error(err)
		}
		c = nc.(*Conn)
	})
	return c, at
}

// atOnce fails if f takes any time.
func (p *proxy) atOnce(what string, f func()) {
	p.Helper()
	done := make(chan struct{})
	go func() { f(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Second):
		p.Fatalf("%s waits for the address of a connection", what)
	}
}

// TestAddressOfSilentClient has clients that send no header for the PROXY protocol. Nobody
// waits for them: not those that are accepted after them, nor those whose limits pass while
// somebody looks at all connections, nor whoever closes one.
func TestAddressOfSilentClient(t *testing.T) {
	behindProxy(t, idle.Options{}, func(p *proxy) {
		p.tracker.RecentEnds() // records them from here on
		silent, header := p.accept("192.0.2.1:1")
		honest, _ := p.accept("192.0.2.2:2")
		time.Sleep(59 * time.Second)
		begun := time.Now()
		ctx, cancel := context.WithTimeout(p.Context(), 20*time.Second)
		defer cancel()
		p.atOnce("Visit", func() {
			if err := p.tracker.Visit(ctx, func(i idle.Info) { i.Label() }); err != nil {
				p.Error(err)
			}
		})
		wantTimeout(p, read1(honest), idle.ReasonIdle)
		if late := time.Since(begun) - time.Second; late > time.Second {
			p.Errorf("timed out %v late", late)
		}
		p.atOnce("Close", func() { silent.Close() })
		close(header.header)
	})
}

// TestLabelKnownLater has ends labelled with addresses that were known only later.
func TestLabelKnownLater(t *testing.T) {
	behindProxy(t, idle.Options{}, func(p *proxy) {
		p.tracker.RecentEnds()
		c, at := p.accept("192.0.2.1:1")
		close(at.header)
		synctest.Wait()
		c.Close()
		if ends := p.tracker.RecentEnds(); len(ends) != 1 || ends[0].Label != "192.0.2.1:1" {
			p.Errorf("%+v", ends)
		}
	})
}
