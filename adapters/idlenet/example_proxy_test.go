package idlenet_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// proxy joins clients to a server. Both sides have timeouts of one tracker.
type proxy struct {
	ln       *idlenet.Listener // for clients
	server   string
	upstream *idle.Phase // of connections to the server
}

// A byte that is copied is an activity of both sides, so the shorter of the two idle
// limits is that of the pair. WriteTimeout is of each side alone: it ends a pair of
// which one side takes nothing, though the other one sends.
func newProxy(ln net.Listener, server string) (*proxy, error) {
	l, err := idlenet.Wrap(ln, idle.Policy{Name: "client", IdleTimeout: 100 * time.Millisecond, WriteTimeout: 30 * time.Second}, nil)
	if err != nil {
		return nil, err
	}
	upstream, err := l.Phase(idle.Policy{Name: "upstream", IdleTimeout: time.Hour, WriteTimeout: 30 * time.Second})
	return &proxy{l, server, upstream}, err
}

// join copies both ways until both sides have ended, or one of them has failed. It
// returns what failed first.
func (p *proxy) join(client *idlenet.Conn) error {
	defer client.Close()
	nc, err := net.Dial("tcp", p.server)
	if err != nil {
		return err
	}
	wrapped, err := idlenet.WrapConn(nc, p.ln.Tracker(), nil)
	if err != nil {
		nc.Close()
		return err
	}
	server := idlenet.Unwrap(wrapped)
	defer server.Close()
	server.Enter(p.upstream)

	done := make(chan error, 2)
	copyTo := func(to, from *idlenet.Conn) {
		_, err := io.Copy(to, from) // by splice, on Linux
		to.CloseWrite()
		done <- err
	}
	go copyTo(server, client)
	go copyTo(client, server)
	if err := <-done; err != nil {
		return err // the other copy fails when both connections are closed
	}
	return <-done
}

// A proxy wraps both connections of a pair, and closes both when either times out.
func Example_proxy() {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer echo.Close()
	go func() {
		conn, err := echo.Accept()
		if err != nil {
			log.Fatal(err)
		}
		io.Copy(conn, conn)
		conn.Close()
	}()
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	p, err := newProxy(bare, echo.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer p.ln.Close()
	go func() { // a client that falls silent
		client, err := net.Dial("tcp", p.ln.Addr().String())
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		io.WriteString(client, "hello")
		io.Copy(io.Discard, client)
	}()

	conn, err := p.ln.Accept()
	if err != nil {
		log.Fatal(err)
	}
	err = p.join(conn.(*idlenet.Conn))
	var timeout *idle.TimeoutError
	if errors.As(err, &timeout) {
		fmt.Println(timeout.Phase, timeout.Setting)
	}
	// Output: client IdleTimeout
}
