package kernel

import (
	"net"
	"testing"
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
