//go:build proof

package faults

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// A server whose reader does not get to run, because the machine is busy, closes
// nobody whose bytes came in time: they wait in the kernel, and it is asked
// before anybody is closed.
func TestStarvedReader(t *testing.T) {
	long(t)
	t.Parallel()
	starve(t, idle.Policy{ReadTimeout: limit})
}

// starve has a client send all that it has to at once, and the server's Read of
// it delayed until the limit is over.
func starve(t *testing.T, p idle.Policy) {
	t.Helper()
	tracker, err := idle.New(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tracker.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client := dial(t, ln.Addr().String())
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	c, err := idlenet.WrapConn(&starved{accepted.(*net.TCPConn)}, tracker, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(client, "hello"); err != nil {
		t.Fatal(err)
	}
	if time.Since(begin) >= limit {
		t.Skip("the machine is too busy: the client was to send at once")
	}
	_, err = io.ReadFull(c, make([]byte, len("hello")))
	if took := time.Since(begin); took >= 2*limit {
		t.Skipf("the machine is too busy: the reader was to be starved for %v, and was for %v", starvation, took) // unread input averts a limit once
	}
	var timeout *idle.TimeoutError
	if errors.As(err, &timeout) || idlenet.Unwrap(c).Timeout() != nil {
		t.Errorf("closed, though all was sent at once: %v", idlenet.Unwrap(c).Timeout())
	}
}

const starvation = limit + limit/2

// A starved connection is one of which each reader comes late.
type starved struct{ *net.TCPConn }

func (s *starved) Read(b []byte) (int, error) {
	time.Sleep(starvation)
	return s.TCPConn.Read(b)
}
