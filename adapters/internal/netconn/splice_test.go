package netconn

import (
	"errors"
	"io"
	"math"
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// connect returns both ends of a loopback connection, the server's as a Conn.
func connect(t *testing.T) (server *Conn, client net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if client, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	tracker, err := idle.New(idle.Policy{IdleTimeout: time.Minute}, nil)
	if err != nil {
		t.Fatal(err)
	}
	server = new(Conn)
	if err := server.Init(accepted, tracker, server, NewSetup(idle.Hooks{}, nil)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(); client.Close(); tracker.Close() })
	return server, client
}

// TestSpliceFromOneThatTimesOut: the source may do so after its input was seen
// and before it is taken, and the error says so.
func TestSpliceFromOneThatTimesOut(t *testing.T) {
	if !kernel.SeesOutput {
		t.Skip("splice is Linux's")
	}
	server, client := connect(t)
	dst, far := connect(t)
	go io.Copy(io.Discard, far)
	if _, err := client.Write(make([]byte, 3*fewBytes)); err != nil {
		t.Fatal(err)
	}
	moves := 0
	_, err := server.setup.splice(dst, server, server.setup.socketOf(server), math.MaxInt64, func(r io.Reader) (int64, error) {
		moves++
		server.expire(&idle.TimeoutError{Reason: idle.ReasonIdle})
		return dst.bare().(*net.TCPConn).ReadFrom(r)
	})
	if timeout := new(idle.TimeoutError); !errors.As(err, &timeout) || moves != 1 {
		t.Errorf("%v, after %d splices", err, moves)
	}
}
