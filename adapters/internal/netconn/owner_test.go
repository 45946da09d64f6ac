package netconn

import (
	"errors"
	"net"
	"testing"

	"github.com/idlewheel/idlewheel/idle"
)

// connect returns both ends of a loopback connection, the server's as a Conn.
func connect(t *testing.T, p idle.Policy, callbacks idle.Hooks) (server *Conn, client net.Conn) {
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
	tracker, err := idle.New(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	server = new(Conn)
	if err := server.Init(accepted, tracker, server, NewSetup(callbacks, nil)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(); client.Close(); tracker.Close() })
	return server, client
}

func wantTimeout(t *testing.T, err error, reason idle.Reason) {
	t.Helper()
	var timeout *idle.TimeoutError
	if !errors.As(err, &timeout) || timeout.Reason != reason {
		t.Errorf("got %v, want a timeout for %q", err, reason)
	}
}
