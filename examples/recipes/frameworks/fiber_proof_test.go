//go:build proof

package main

import (
	"net"
	"testing"
)

// TestFiber uses a socket and waits 10 s for HeaderTimeout: Fiber and fasthttp have goroutines that
// never end, which testing/synctest doesn't allow.
func TestFiber(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go serveFiber(ln)
	exchange(t, func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) })
}
