package idlenet

import (
	"context"
	"errors"
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
		if err := p.tracker.SetCapacity(idle.Capacity{PerKey: 10, New: idle.Quota{PerSecond: 10}, NewPerKey: idle.Quota{PerSecond: 10}}); err != nil {
			p.Fatal(err)
		}
		p.tracker.RecentEnds() // records them from here on
		silent, header := p.accept("192.0.2.1:1")
		honest, _ := p.accept("192.0.2.2:2")
		time.Sleep(59 * time.Second)
		begun := time.Now()
		ctx, cancel := context.WithTimeout(p.Context(), 20*time.Second)
		defer cancel()
		p.atOnce("Page", func() {
			census, err := p.tracker.Census(ctx, idle.Query{})
			if err != nil {
				p.Error(err)
				return
			}
			if _, err := census.Page(ctx, 0, 10); err != nil {
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

// TestKeyKnownLater counts connections by their address as soon as that is known.
func TestKeyKnownLater(t *testing.T) {
	behindProxy(t, idle.Options{}, func(p *proxy) {
		if err := p.tracker.SetCapacity(idle.Capacity{PerKey: 2}); err != nil {
			p.Fatal(err)
		}
		var all []*Conn
		var headers []*proxied
		for range 4 {
			c, at := p.accept("192.0.2.1:1")
			all, headers = append(all, c), append(headers, at)
		}
		for _, at := range headers[:3] {
			close(at.header)
			time.Sleep(time.Second)
		}
		var timeout *idle.TimeoutError
		if err := read1(all[2]); !errors.As(err, &timeout) || timeout.Reason != idle.ReasonEvict || timeout.Cause == "" {
			p.Errorf("the third of an address for which two are allowed: %v", err)
		}
		all[0].Close()
		close(headers[3].header)
		time.Sleep(time.Second)
		if got := p.tracker.Stats(); got.Live != 2 || all[1].Timeout() != nil || all[3].Timeout() != nil {
			p.Errorf("%d live; %v, %v", got.Live, all[1].Timeout(), all[3].Timeout())
		}
	})
}

// TestRateKnownLater: a connection whose address comes later counts in NewPerKey from then on. If
// its address has had too many, it is ended.
func TestRateKnownLater(t *testing.T) {
	behindProxy(t, idle.Options{}, func(p *proxy) {
		if err := p.tracker.SetCapacity(idle.Capacity{NewPerKey: idle.Quota{PerSecond: 0.1, Burst: 2}}); err != nil {
			p.Fatal(err)
		}
		for i := range 4 {
			c, at := p.accept("192.0.2.1:1")
			close(at.header)
			time.Sleep(time.Second)
			ended := c.Timeout()
			if (ended != nil) != (i >= 2) || ended != nil && (ended.Reason != idle.ReasonEvict || ended.Cause != "too many connections in so short a time") {
				p.Errorf("number %d: %v", i, ended)
			}
		}
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

// TestKeyCloses has Key close the connection that it is asked about, while Track is running.
func TestKeyCloses(t *testing.T) {
	tr, err := idle.New(idle.Policy{IdleTimeout: time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	closes := func(owner any) string {
		owner.(net.Conn).Close()
		return "banned"
	}
	if err := tr.SetCapacity(idle.Capacity{PerKey: 1, Key: closes}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a, b := net.Pipe()
		defer b.Close()
		if _, err := WrapConn(a, tr, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := tr.Stats(); got.Live != 0 {
		t.Errorf("%d are live that are closed", got.Live)
	}
}
