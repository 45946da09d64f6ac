package kernel

import (
	"net"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

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

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// waiterFunc is a Waiter that is a function.
type waiterFunc func(queued uint64, moved bool)

func (f waiterFunc) WriteWaits(queued uint64, moved bool) { f(queued, moved) }

// nobody is a Waiter that does not care.
type nobody struct{}

func (nobody) WriteWaits(uint64, bool) {}

func streamOf(nc net.Conn) net.Conn {
	made, _ := Stream(nc, nobody{})
	return made
}
