//go:build proof

package idlegrpc

import (
	"net"
	"syscall"
	"testing"
)

// TestSocketOptions: channelz reads the options of a socket from what implements syscall.Conn.
func TestSocketOptions(t *testing.T) {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, nc := serveOne(t, bare, func() (net.Conn, error) { return net.Dial("tcp", bare.Addr().String()) })
	for what, v := range map[string]any{"listener": l, "connection": nc} {
		sc, ok := v.(syscall.Conn)
		if !ok {
			t.Errorf("the %s is no syscall.Conn", what)
			continue
		}
		raw, err := sc.SyscallConn()
		if err != nil {
			t.Errorf("the %s: %v", what, err)
			continue
		}
		called := false
		if err := raw.Control(func(uintptr) { called = true }); err != nil || !called {
			t.Errorf("the %s: Control called its function: %v, %v", what, called, err)
		}
	}
}
