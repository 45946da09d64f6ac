package main

import (
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/examples/recipes/internal/try"
)

// TestServe uses sockets: Fiber and fasthttp have goroutines that never end, which
// testing/synctest doesn't allow.
func TestServe(t *testing.T) {
	try.Hello(t, dialer(t, idlefasthttp.Timeouts{}))
	try.HalfARequest(t, dialer(t, idlefasthttp.Timeouts{HeaderTimeout: time.Second}))
}

// dialer starts a server, and returns what connects to it.
func dialer(t *testing.T, limits idlefasthttp.Timeouts) func() (net.Conn, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go serve(ln, limits)
	return func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
}
