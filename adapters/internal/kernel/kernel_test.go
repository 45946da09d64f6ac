package kernel

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// connect returns both ends of a connection.
func connect(t *testing.T, network, address string) (server, client net.Conn) {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if client, err = net.Dial(network, ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(); client.Close() })
	return server, client
}

// nobody is a Waiter that does not care.
type nobody struct{}

func (nobody) WriteWaits(int) {}

func streamOf(nc net.Conn) net.Conn {
	made, _ := Stream(nc, nobody{})
	return made
}

func TestSending(t *testing.T) {
	for r, want := range map[Report]bool{
		{}: false, // nothing is known
		{QueuedKnown: true, Queued: 1, Out: time.Millisecond}:                           false, // it has been sent
		{QueuedKnown: true, Queued: 1, NotSent: 1, Out: time.Millisecond}:               true,
		{QueuedKnown: true, Queued: 1, NotSent: 1, Out: stalledAfter - time.Nanosecond}: true,
		{QueuedKnown: true, Queued: 1, NotSent: 1, Out: stalledAfter}:                   false, // nothing moves any more
		{QueuedKnown: true, Queued: 1, NotSent: 1}:                                      false, // nor is it known when it did
	} {
		if r.Sending() != want || r.Evidence().Sending != want {
			t.Errorf("%+v: %v, and as evidence %v", r, r.Sending(), r.Evidence().Sending)
		}
	}
}

// A write that fails has written what it says.
func TestStreamTellsWhatItHasWritten(t *testing.T) {
	server, client := connect(t, "tcp", "127.0.0.1:0")
	c, _ := Stream(server, nobody{})
	go func() { // when the write is under way
		client.Read(make([]byte, 1))
		c.SetWriteDeadline(time.Unix(1, 0))
	}()
	n, err := c.Write(make([]byte, 64<<20))
	if n <= 0 || n >= 64<<20 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	c.Close()
	if took, err := io.Copy(io.Discard, client); int(took) != n-1 || err != nil {
		t.Errorf("the peer has got %d bytes of %d, %v", took+1, n, err)
	}
}

// TestAllocatesNothing fails if a compiler no longer puts operations on the stack.
func TestAllocatesNothing(t *testing.T) {
	server, client := connect(t, "tcp", "127.0.0.1:0")
	socket, peer := connect(t, "unix", filepath.Join(t.TempDir(), "s"))
	queue, _ := Queue(socket.(*net.UnixConn), nobody{})
	b := make([]byte, 100)
	for name, ends := range map[string][2]net.Conn{"stream": {streamOf(server), streamOf(client)}, "queue": {queue, peer}} {
		if n := testing.AllocsPerRun(1000, func() {
			for i, end := range ends {
				if _, err := end.Write(b); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(ends[1-i], b); err != nil {
					t.Fatal(err)
				}
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// A read that a deadline ends allocates no more than package net's. net/http ends one so with
// each request, the one that it makes in the background.
func TestDeadlineAllocatesAsNetDoes(t *testing.T) {
	server, _ := connect(t, "tcp", "127.0.0.1:0")
	server.SetReadDeadline(time.Unix(1, 0))
	count := func(c net.Conn) float64 {
		b := make([]byte, 1)
		return testing.AllocsPerRun(100, func() { c.Read(b) })
	}
	if ours, bare := count(streamOf(server)), count(server); ours > bare {
		t.Errorf("%v allocations, and %v by package net", ours, bare)
	}
}

// Only TCP is wrapped, and can be unwrapped.
func TestUnwrap(t *testing.T) {
	server, _ := connect(t, "tcp", "127.0.0.1:0")
	if got := Unwrap(streamOf(server)); got != server {
		t.Errorf("the connection comes back as %v", got)
	}
	pipe, _ := net.Pipe()
	if got, _ := Stream(pipe, nobody{}); got != pipe || Unwrap(got) != pipe {
		t.Errorf("a pipe becomes %T", got)
	}
}
