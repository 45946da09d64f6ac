package main

import (
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/examples/recipes/internal/try"
)

// TestServe uses a socket: Fiber and fasthttp have goroutines that never end, which
// testing/synctest doesn't allow.
func TestServe(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go serve(ln, idlefasthttp.Timeouts{HeaderTimeout: time.Second})
	defer ln.Close()
	dial := func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
	try.Hello(t, dial)
	try.HalfARequest(t, dial)
}
