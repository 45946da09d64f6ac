// Package idletest helps to test servers with timeouts. Its Listener accepts pipes in memory
// instead of sockets, so a server runs in the virtual time of testing/synctest, where an
// hour's timeout passes at once.
//
//	synctest.Test(t, func(t *testing.T) {
//		pipes := idletest.NewListener()
//		go idlehttp.Serve(&http.Server{Handler: h}, pipes, idlehttp.Timeouts{})
//		defer pipes.Close()
//		client, err := pipes.Dial()
//		...
//		// write half a request, and read the 408
//	})
//
// docs/testing.md has more, for TLS, fasthttp and callbacks.
package idletest

import (
	"context"
	"net"
	"sync"
)

// Listener is a net.Listener whose connections are made by [net.Pipe]. A pipe has no buffer:
// a Write returns when the other end has read it, so a client that doesn't read holds up its
// server at once. Make a Listener with [NewListener].
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

// NewListener returns an open listener. In a test with testing/synctest, call it within the
// bubble.
func NewListener() *Listener {
	closed := make(chan struct{})
	return &Listener{make(chan net.Conn), closed, sync.OnceFunc(func() { close(closed) })}
}

// Accept waits for a client to dial, and returns the server's end. After Close it returns
// net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept and Dial fail. Connections that are open stay open. Close may be called
// more than once, and always returns nil.
func (l *Listener) Close() error {
	l.close()
	return nil
}

// Addr returns an address with the network and the name "pipe".
func (l *Listener) Addr() net.Addr { return addr{} }

// Dial returns the client's end of a new connection, once Accept has returned the other end.
// After Close it returns net.ErrClosed.
func (l *Listener) Dial() (net.Conn, error) { return l.DialContext(context.Background()) }

// DialContext is like Dial, but gives up when ctx is done. An http.Transport uses it like this:
//
//	DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.DialContext(ctx) }
func (l *Listener) DialContext(ctx context.Context) (net.Conn, error) {
	server, client := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type addr struct{}

func (addr) Network() string { return "pipe" }
func (addr) String() string  { return "pipe" }
