package netconn

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
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

// After a refusal the kernel is not asked for a sign of life, which might be the
// farewell. If the connection lives on and is kept the next time, the kernel is asked.
func TestRefusalEndsWhenTheConnectionIsKept(t *testing.T) {
	keep := false
	server, _ := connect(t, idle.Policy{MaxAge: time.Hour}, idle.Hooks{OnTimeout: func(any, *idle.TimeoutError) bool { return keep }})
	if r := kernel.InspectConn(server.inner); r.Out == 0 {
		t.Skip("this system does not tell when output last moved")
	}
	hooks := &server.setup.Hooks
	for _, keep = range []bool{false, true} {
		hooks.OnTimeout(server, &idle.TimeoutError{Reason: idle.ReasonIdle})
		if m := server.flags.Load(); m&asking != 0 || m&notKept != 0 == keep {
			t.Errorf("kept: %v, and then the flags are %b", keep, m)
		}
		if p := hooks.Probe(server, idle.ReasonIdle); p.Out > 0 != keep {
			t.Errorf("kept: %v, and then %+v", keep, p)
		}
	}
}

func wantTimeout(t *testing.T, err error, reason idle.Reason) {
	t.Helper()
	var timeout *idle.TimeoutError
	if !errors.As(err, &timeout) || timeout.Reason != reason {
		t.Errorf("got %v, want a timeout for %q", err, reason)
	}
}
