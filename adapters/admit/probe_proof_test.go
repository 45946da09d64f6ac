//go:build proof && linux && !idleother

package admit

import (
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// Input that the kernel has, and the server hasn't read, puts off a timeout once, as for a bare
// socket.
func TestUnreadInputIsSeen(t *testing.T) {
	const limit, tick = 200 * time.Millisecond, 10 * time.Millisecond
	inTime := intime.Of(t, limit/4)
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan time.Time, 1)
	ln, err := idlenet.Wrap(newGate(t, Limits{}).Listener(bare), idle.Policy{IdleTimeout: limit}, &idlenet.Options{
		Idle:  idle.Options{Tick: tick},
		OnEnd: func(*idlenet.Conn, *idle.TimeoutError) { ended <- time.Now() },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	sent := time.Now()
	client.Write([]byte("x"))
	if took := (<-ended).Sub(sent); took < 2*limit-2*tick {
		inTime.Errorf("timed out after %v: once for the byte, and once as it's unread, is %v", took, 2*limit)
	}
}
