package idlegrpc

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/idlewheel/idlewheel/adapters/idletest"
)

// observed are credentials that show what ServerHandshake returns.
type observed struct {
	credentials.TransportCredentials
	conns chan net.Conn
}

func (o observed) ServerHandshake(nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	nc, info, err := o.TransportCredentials.ServerHandshake(nc)
	if err == nil {
		o.conns <- nc
	}
	return nc, info, err
}

func (o observed) Clone() credentials.TransportCredentials { return o }

// serveOne wraps bare, and returns the listener and a connection to it as a server has it.
func serveOne(t *testing.T, bare net.Listener, dial func() (net.Conn, error)) (*Listener, net.Conn) {
	t.Helper()
	l, err := Wrap(bare, Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	creds := observed{l.Credentials(nil), make(chan net.Conn, 1)}
	server := grpc.NewServer(grpc.Creds(creds))
	go server.Serve(l)
	t.Cleanup(server.Stop)
	client, err := grpc.NewClient("passthrough:///server", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return dial() }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	client.Connect()
	return l, <-creds.conns
}

// TestNoSocket: a pipe doesn't claim to have a socket.
func TestNoSocket(t *testing.T) {
	pipes := idletest.NewListener()
	l, nc := serveOne(t, pipes, pipes.Dial)
	if raw, err := l.SyscallConn(); raw != nil || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the listener: %v, %v", raw, err)
	}
	if _, ok := nc.(syscall.Conn); ok {
		t.Error("the connection is a syscall.Conn")
	}
}
