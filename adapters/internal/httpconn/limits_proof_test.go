//go:build proof

package httpconn

import (
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
)

// TestNoAllocation: a request costs none, with a body or without, whoever tells
// of its header.
func TestNoAllocation(t *testing.T) {
	for _, handler := range []time.Duration{0, time.Minute} {
		bare, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l, err := NewListener("httpconn", stillListener{bare}, httplimits.Timeouts{HandlerTimeout: handler}, NoHTTP2)
		if err != nil {
			t.Fatal(err)
		}
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		nc, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c := nc.(*Conn)
		c.Accepted(nc)
		buf := make([]byte, 100)
		for name, request := range map[string]func(){
			"without a body": func() { c.Read(buf); c.Write(buf); c.Idle() },
			"with a body":    func() { c.Read(buf); c.HeaderRead(); c.Read(buf); c.Write(buf); c.Idle() },
			"in pieces":      func() { c.Read(buf); c.Read(buf); c.Write(buf); c.Idle() },
			"by a deadline": func() {
				c.Read(buf)
				c.SetReadDeadline(time.Now().Add(HeaderReadSignal))
				c.Write(buf)
				c.Idle()
			},
		} {
			if n := testing.AllocsPerRun(100, request); n != 0 {
				t.Errorf("%s, handler limit %v: %v allocations", name, handler, n)
			}
		}
		client.Close()
		c.Close()
		l.Close()
	}
}
