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

// BenchmarkRequest is what the timeouts add to a request without a body, when
// all is in the first-level caches: a Read, a Write, and the end of the request.
func BenchmarkRequest(b *testing.B) {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	l, err := NewListener("httpconn", stillListener{bare}, httplimits.Timeouts{}, NoHTTP2)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	nc, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	c := Find(l, nc)
	c.Accepted(nc)
	buf := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		nc.Read(buf)
		nc.Write(buf)
		c.Idle()
	}
}
