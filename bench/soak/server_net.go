package main

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// A netEcho is an echo server as one writes it with package net.
type netEcho struct {
	pings, stream *idle.Phase
	ledger        *ledger
	serving       sync.WaitGroup
}

func startNet(s *server) error {
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ln, err := idlenet.Wrap(bare, idle.Policy{IdleTimeout: limit}, &idlenet.Options{Ping: writePing})
	if err != nil {
		return err
	}
	tracker := ln.Tracker()
	e := &netEcho{ledger: s.ledger}
	if e.pings, err = tracker.Phase(pingPolicy()); err != nil {
		return err
	}
	if e.stream, err = tracker.Phase(streamPolicy()); err != nil {
		return err
	}
	e.serving.Go(func() { e.accept(ln) })
	s.address, s.lives, s.stats = ln.Addr().String(), netLives(), tracker.Stats
	s.stop = func() error {
		live, err := tracker.Close()
		ln.Close()
		for _, c := range live {
			c.(net.Conn).Close()
		}
		e.serving.Wait()
		return err
	}
	return nil
}

func writePing(c *idlenet.Conn) error {
	_, err := c.Write([]byte{ping})
	return err
}

func (e *netEcho) accept(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) || errors.Is(err, idle.ErrClosed) {
			return
		}
		if err == nil {
			e.serving.Go(func() { e.serve(c.(*idlenet.Conn)) })
		}
	}
}

func (e *netEcho) serve(c *idlenet.Conn) {
	defer c.Close()
	err := e.converse(c)
	var timeout *idle.TimeoutError
	if errors.As(err, &timeout) {
		e.ledger.timedOut(c.RemoteAddr(), timeout.Reason)
	}
}

func (e *netEcho) converse(c *idlenet.Conn) error {
	b := make([]byte, 4096)
	n, err := c.Read(b)
	if err != nil {
		return err
	}
	switch b[0] {
	case modeStream:
		c.Enter(e.stream)
		for err == nil {
			_, err = c.Write(stream[:64<<10])
		}
		return err
	case modeHalf:
		return talk(c)
	case modePing:
		c.Enter(e.pings)
		for err == nil {
			_, err = c.Read(b)
		}
		return err
	}
	for err == nil {
		if _, err = c.Write(b[:n]); err == nil {
			n, err = c.Read(b)
		}
	}
	return err
}

// talk goes on after the client has closed its side.
func talk(c *idlenet.Conn) error {
	var b [1]byte
	c.Read(b[:]) // the end; that it is one is the client's to check
	for range halfWords {
		time.Sleep(halfEvery)
		w := newWord()
		if _, err := c.Write(w[:]); err != nil {
			return err
		}
	}
	return nil
}

// stream is what those who read slowly get.
var stream = make([]byte, 1<<20)
