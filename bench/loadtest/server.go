package main

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/idle"
)

// What goes over the test's sockets. A connection begins with a hello, which
// the server answers when the connection is under its own limit; after that
// every byte is a message.
const (
	ready = 'r' // server: the answer to the hello
	ping  = 'p' // server
	talk  = 't' // client: I am here
	beat  = 'b' // client: a beat
)

// A hello says what a connection is going to do, and which it is.
type hello struct {
	Kind kind
	ID   uint32
}

// A news is what the server process tells; one of the fields is set.
type news struct {
	Address string   `json:"address,omitempty"` // the first: where it listens
	Closed  *closure `json:"closed,omitempty"`  // a connection has timed out
	Done    *account `json:"done,omitempty"`    // the last
}

// A closure is that a connection has timed out.
type closure struct {
	ID     uint32      `json:"id"`
	Reason idle.Reason `json:"reason"`
}

// A server is an ordinary server with timeouts, which also tells who timed out.
type server struct {
	parent       *child.Parent
	beats, pings *idle.Phase

	serving sync.WaitGroup
}

// serve is what the server process does until the test is over, or its process is
// gone.
func serve(parent *child.Parent) error {
	var l limits
	if err := parent.Hear(&l); err != nil {
		return err
	}
	pauses := spread.New()
	s := &server{parent: parent}
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer bare.Close()
	ln, err := idlenet.Wrap(bare, l.policy(), &idlenet.Options{
		Ping: func(c *idlenet.Conn) error {
			_, err := c.Write([]byte{ping})
			return err
		},
		Idle: *l.options(pauses),
	})
	if err != nil {
		return err
	}
	tracker := ln.Tracker()
	defer tracker.Close()
	if s.beats, s.pings, err = l.phases(tracker); err != nil {
		return err
	}
	if err := parent.Tell(news{Address: ln.Addr().String()}); err != nil {
		return err
	}
	s.serving.Go(func() { s.accept(ln) })

	parent.Wait()
	live, err := tracker.Close()
	if err != nil {
		return err
	}
	ln.Close()
	for _, c := range live {
		c.(*idlenet.Conn).Close()
	}
	s.serving.Wait()
	return parent.Tell(news{Done: &account{tracker.Stats(), len(live), pauses.Summary()}})
}

func (s *server) accept(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		s.serving.Go(func() { s.serve(nc.(*idlenet.Conn)) })
	}
}

// serve reads from c until it ends.
func (s *server) serve(c *idlenet.Conn) {
	id, err := s.converse(c)
	c.Close()
	var timeout *idle.TimeoutError
	if !errors.As(err, &timeout) {
		timeout = c.Timeout() // it may have passed in the moment in which the peer left
	}
	if timeout != nil {
		s.parent.Tell(news{Closed: &closure{id, timeout.Reason}})
	}
}

func (s *server) converse(c *idlenet.Conn) (id uint32, err error) {
	var h hello
	if err := binary.Read(c, binary.BigEndian, &h); err != nil {
		return nobody, err
	}
	id = h.ID
	switch h.Kind {
	case beater:
		c.Enter(s.beats)
	case pinged:
		c.Enter(s.pings)
	}
	if _, err := c.Write([]byte{ready}); err != nil {
		return id, err
	}
	var messages [16]byte
	for {
		n, err := c.Read(messages[:])
		if err != nil {
			return id, err
		}
		for _, m := range messages[:n] {
			if m == beat {
				c.Beat()
			}
		}
	}
}

// nobody is the id of a connection that has not said who it is.
const nobody = 1<<32 - 1
