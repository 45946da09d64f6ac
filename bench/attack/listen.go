package main

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// listen returns a listener on a free port.
func listen() (net.Listener, error) {
	// Small buffers, so that a thousand slow readers do not take gigabytes of the
	// kernel's memory, and so that it does not take a film to fill them.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return setSendBuffer(c, 32<<10) }}
	ln, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return patient{ln}, nil
}

// patient is a listener that waits for a descriptor if there is none. net/http
// does so itself, but fasthttp would end.
type patient struct{ net.Listener }

func (p patient) Accept() (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		if !errors.Is(err, syscall.EMFILE) {
			return c, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}
