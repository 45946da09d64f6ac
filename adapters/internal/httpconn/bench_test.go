package httpconn

import (
	"net"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
)

// still is a connection that moves no bytes. Besides that it is a real one, as
// it matters what the kernel tells of it.
type still struct{ *net.TCPConn }

func (still) Read(b []byte) (int, error)  { return len(b), nil }
func (still) Write(b []byte) (int, error) { return len(b), nil }

type stillListener struct{ net.Listener }

func (l stillListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return still{nc.(*net.TCPConn)}, nil
}

// stillConn connects to a listener of still connections.
func stillConn(tb testing.TB, limits httplimits.Timeouts) *Conn {
	tb.Helper()
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	l, err := NewListener("httpconn", stillListener{bare}, limits, NoHTTP2)
	if err != nil {
		tb.Fatal(err)
	}
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	nc, err := l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close(); nc.Close(); l.Close() })
	c := nc.(*Conn)
	c.Accepted(nc)
	return c
}

// BenchmarkRequest is what the timeouts add to a request without a body, when
// all is in the first-level caches: a Read, a Write, and the end of the request.
func BenchmarkRequest(b *testing.B) {
	c, buf := stillConn(b, httplimits.Timeouts{}), make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		c.Read(buf)
		c.Write(buf)
		c.Idle()
	}
}
