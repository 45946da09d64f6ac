package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/idle"
)

// serverCommand, as the first argument, makes this program the server of a test
// that is run by another process of it.
const serverCommand = "serve-for-loadtest"

// A server is an ordinary server with timeouts, which also tells who timed out.
type server struct {
	beats, pings *idle.Phase

	serving sync.WaitGroup
	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	out     *json.Encoder
}

// runServer serves until stdin ends, as it does when the test is over or its
// process dies.
func runServer(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := serve(args, stdin, stdout); err != nil {
		fmt.Fprintf(stderr, "loadtest: server: %v\n", err)
		return statusTrouble
	}
	return statusPass
}

func serve(args []string, stdin io.Reader, stdout io.Writer) error {
	cfg, err := parse(args)
	if err != nil {
		return err
	}
	pauses := spread.New()
	s := &server{conns: map[net.Conn]struct{}{}, out: json.NewEncoder(stdout)}
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer bare.Close()
	ln, err := idlenet.Wrap(bare, cfg.policy(), &idlenet.Options{Ping: writePing, Idle: *cfg.options(pauses)})
	if err != nil {
		return err
	}
	tracker := ln.Tracker()
	defer tracker.Close()
	if s.beats, err = tracker.Phase(cfg.beatPolicy()); err != nil {
		return err
	}
	if s.pings, err = tracker.Phase(cfg.pingPolicy()); err != nil {
		return err
	}
	s.tell(news{Address: ln.Addr().String()})
	s.serving.Go(func() { s.accept(ln) })

	io.Copy(io.Discard, stdin)
	live, err := tracker.Close()
	if err != nil {
		return err
	}
	ln.Close()
	s.closeAll()
	s.serving.Wait()
	return s.tell(news{Done: &account{Stats: tracker.Stats(), HandedBack: len(live), Pause: newPause(pauses)}})
}

func writePing(c *idlenet.Conn) error {
	_, err := c.Write([]byte{ping})
	return err
}

func (s *server) accept(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[nc] = struct{}{}
		s.mu.Unlock()
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
		s.tell(news{Closed: &closure{id, timeout.Reason}})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

func (s *server) converse(c *idlenet.Conn) (id uint32, err error) {
	var h hello
	if _, err := io.ReadFull(c, h[:]); err != nil {
		return nobody, err
	}
	switch h.kind() {
	case beater:
		c.Enter(s.beats)
	case pinged:
		c.Enter(s.pings)
	}
	if _, err := c.Write([]byte{ready}); err != nil {
		return h.id(), err
	}
	var messages [16]byte
	for {
		n, err := c.Read(messages[:])
		if err != nil {
			return h.id(), err
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

// tell writes a line to the test's process.
func (s *server) tell(n news) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Encode(n)
}

func (s *server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}
