//go:build proof

package httpconn

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// TestFindLeavesTheDeadline of a socket that another listener of the server has accepted: the
// application may have set it.
func TestFindLeavesTheDeadline(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	io.WriteString(client, "x")
	nc.SetReadDeadline(time.Unix(1, 0))
	if Unwrap(nc) != nil {
		t.Error("found")
	}
	if n, err := nc.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes after the deadline: %v", n, err)
	}
}
