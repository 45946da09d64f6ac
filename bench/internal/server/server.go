// Package server has the servers under test: an echo server over package net,
// one over gnet, one over WebSockets, HTTP servers of net/http, with and without
// TLS, and of fasthttp, and a gRPC server. Each of them runs bare, with its own
// timeouts, or with idlewheel's.
//
//	s, err := server.New(server.Config{Kind: server.HTTP, Variant: server.Ours})
//	...
//	err = s.Start()
//	... // clients of s.Address
//	err = s.Stop()
package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/idle"
)

// The kinds of servers.
const (
	Net       = "net"
	Gnet      = "gnet"
	HTTP      = "http"
	HTTPS     = "https" // HTTP/2 too, for clients that ask for it
	HTTP2     = "http2" // the same server, for clients that do
	Fasthttp  = "fasthttp"
	GRPC      = "grpc"      // echo by grpc-go, without TLS
	WebSocket = "websocket" // echo by coder/websocket over net/http, without TLS
)

// Kinds returns all kinds in alphabetical order.
func Kinds() []string { return []string{Fasthttp, Gnet, GRPC, HTTP, HTTP2, HTTPS, Net, WebSocket} }

// The variants of a server.
const (
	Bare = "bare" // without timeouts
	Own  = "own"  // with those of the server itself; gnet has none
	Ours = "ours" // with idlewheel's
)

// Variants returns the variants that a kind of server has, the bare one first.
func Variants(kind string) []string {
	if kind == Gnet {
		return []string{Bare, Ours}
	}
	return []string{Bare, Own, Ours}
}

// A Config says which server runs, and under which limits. Of the fields from
// Policy on only those of its kind matter, and all of them may be zero.
type Config struct {
	Kind, Variant string
	Listener      net.Listener  // nil for a free port of loopback; not for gnet
	Own           time.Duration // every timeout that the server has, in the variant Own; 0 leaves them alone

	// Of Net, Gnet and WebSocket.
	Policy idle.Policy

	// Of Net and Gnet.
	Net         *idlenet.Options
	Serve       func(net.Conn) // serves a connection and closes it; nil echoes
	Gnet        *idlegnet.Options
	Engine      gnet.EventHandler // nil echoes
	GnetOptions []gnet.Option

	// Of HTTP servers, which answer with Greeting, unless Web or Fast changes
	// the server before it runs. GRPC has the Timeouts as well.
	Timeouts httplimits.Timeouts
	Web      func(*http.Server)
	Fast     func(*fasthttp.Server)
}

// Greeting is what HTTP servers answer.
const Greeting = "hello, world"

// A Server is a server under test.
type Server struct {
	Address string // of gnet when Start has returned

	// Of the variant Ours.
	Tracker *idle.Tracker     // not of gnet
	Gnet    *idlegnet.Handler // of gnet only
	Stats   func() idle.Stats

	serve func() error // returns when the server is stopped
	boot  <-chan struct{}
	stop  func() error
	ended chan struct{} // closed when err is set
	err   error
}

// New makes a server of one of the kinds, in one of their variants. It listens when Start has returned, or before.
func New(c Config) (*Server, error) {
	if c.Kind == Gnet {
		return newGnet(c)
	}
	ln := c.Listener
	if ln == nil {
		var err error
		if ln, err = Listen(); err != nil {
			return nil, err
		}
	}
	made := map[string]func(Config, net.Listener) (*Server, error){
		Net: newNet, HTTP: newHTTP, HTTPS: newHTTP, HTTP2: newHTTP, WebSocket: newHTTP, Fasthttp: newFasthttp, GRPC: newGRPC,
	}
	s, err := made[c.Kind](c, ln)
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	s.Address = ln.Addr().String()
	return s, nil
}

// Listen listens on a free port of loopback.
func Listen() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

// FreeAddress returns an address of loopback for a server that can't choose a port, or doesn't
// tell which one. Systems give other listeners, and outgoing connections, higher ports.
func FreeAddress() (address string, err error) {
	for range 100 {
		address = fmt.Sprint("127.0.0.1:", 10_000+rand.IntN(20_000))
		var ln net.Listener
		if ln, err = net.Listen("tcp", address); err == nil {
			return address, ln.Close()
		}
	}
	return "", err
}

// Start has the server serve. It returns when clients can connect.
func (s *Server) Start() error {
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		s.err = s.serve()
	}()
	if s.boot == nil {
		return nil
	}
	select {
	case <-s.boot:
		return nil
	case <-s.ended:
		return errors.Join(errors.New("the server did not start"), s.err)
	}
}

// Err is why the server has ended.
func (s *Server) Err() error { return s.err }

// Stop ends the server and its connections, and waits for that.
func (s *Server) Stop() error {
	err := s.stop()
	<-s.ended
	return err
}

// Serve has the server serve in a child, until its parent has stopped it. It tells
// its address first, and then an answer to each question.
func (s *Server) Serve(parent *child.Parent, answer func() any) error {
	if err := s.Start(); err != nil {
		return err
	}
	parent.Tell(s.Address) // if that fails, so does what is heard
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for parent.Hear(new(any)) == nil {
			parent.Tell(answer())
		}
	}()
	select {
	case <-s.ended:
		return errors.Join(errors.New("the server ended before its time"), s.err)
	case <-gone:
		return nil
	}
}

// A Child is a child that serves, and where.
type Child struct {
	*child.Child
	Address string
}

// StartChild starts a child that serves.
func StartChild(role string, order any, o child.Options) (*Child, error) {
	c, err := child.Start(role, order, o)
	if err != nil {
		return nil, err
	}
	s := &Child{Child: c}
	if err := c.Hear(&s.Address); err != nil {
		return nil, errors.Join(fmt.Errorf("the server did not start: %w", err), c.Stop())
	}
	return s, nil
}

// Ask puts a question to the child, and takes the answer.
func (c *Child) Ask(answer any) error {
	if err := c.Tell("?"); err != nil {
		return fmt.Errorf("the server has ended: %w", err)
	}
	return c.Hear(answer)
}
