package httpconn

import (
	"net"
	"testing"
	"time"
)

// still is a connection that does nothing.
type still struct{ net.Conn }

func (still) Read(b []byte) (int, error)  { return len(b), nil }
func (still) Write(b []byte) (int, error) { return len(b), nil }
func (still) Close() error                { return nil }
func (still) SetDeadline(time.Time) error { return nil }

type stillListener struct{ net.Listener }

func (stillListener) Accept() (net.Conn, error) { return still{}, nil }
func (stillListener) Close() error              { return nil }

// BenchmarkRequest is what the timeouts add to a request without a body, when
// all is in the first-level caches: a Read, a Write, and the end of the request.
func BenchmarkRequest(b *testing.B) {
	l, err := NewListener("httpconn", stillListener{}, Limits{})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	nc, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	c := l.Find(nc)
	c.Accepted(nc)
	buf := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		nc.Read(buf)
		nc.Write(buf)
		c.Idle()
	}
}
