package server

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
)

// A netServer has a goroutine for each connection.
type netServer struct {
	ln      net.Listener
	each    func(net.Conn)
	serving sync.WaitGroup
	conns   sync.Map // net.Conn: nil
	stopped atomic.Bool
}

func newNet(c Config, ln net.Listener) (*Server, error) {
	n := &netServer{ln: ln, each: c.Serve}
	if n.each == nil {
		n.each = echo
	}
	s := &Server{serve: n.accept, stop: n.stop}
	switch {
	case c.Variant == Own && c.Own > 0:
		each := n.each
		n.each = func(c2 net.Conn) { each(deadlineConn{c2, c.Own}) }
	case c.Variant == Ours:
		wrapped, err := idlenet.Wrap(ln, c.Policy, c.Net)
		if err != nil {
			return nil, err
		}
		n.ln, s.Tracker, s.Stats = wrapped, wrapped.Tracker(), wrapped.Tracker().Stats
	}
	return s, nil
}

// deadlineConn sets a deadline before each read, which is package net's way.
type deadlineConn struct {
	net.Conn
	timeout time.Duration
}

func (c deadlineConn) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// accept accepts connections until the server is stopped. It passes over errors of
// single connections.
func (n *netServer) accept() error {
	for !n.stopped.Load() {
		c, err := n.ln.Accept()
		if err != nil {
			time.Sleep(time.Millisecond) // there may be no descriptor now
			continue
		}
		n.conns.Store(c, nil)
		if n.stopped.Load() { // stop may have missed it
			c.Close()
		}
		n.serving.Go(func() {
			n.each(c)
			n.conns.Delete(c)
		})
	}
	n.serving.Wait()
	return nil
}

func (n *netServer) stop() error {
	n.stopped.Store(true)
	err := n.ln.Close()
	for c := range n.conns.Range {
		c.(net.Conn).Close()
	}
	return err
}

// bufferSize is how much an echo server reads at once.
const bufferSize = 4096

func echo(c net.Conn) {
	defer c.Close()
	b := make([]byte, bufferSize)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		if _, err := c.Write(b[:n]); err != nil {
			return
		}
	}
}
