// Package server has the servers under test: echo servers over package net and over gnet, and
// servers of net/http, with and without TLS, and of fasthttp. Each runs bare, with its own
// timeouts, or with idlewheel's.
package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// The kinds of servers.
const (
	Net      = "net"
	Gnet     = "gnet"
	HTTP     = "http"
	HTTPS    = "https" // HTTP/2 too, for clients that ask for it
	HTTP2    = "http2" // the same server, for clients that do
	Fasthttp = "fasthttp"
)

// Kinds returns all kinds in alphabetical order.
func Kinds() []string { return []string{Fasthttp, Gnet, HTTP, HTTP2, HTTPS, Net} }

// The variants of a server.
const (
	Bare = "bare" // without timeouts
	Own  = "own"  // with those of the server itself; gnet has none
	Ours = "ours" // with idlewheel's
)

func hasTLS(kind string) bool { return kind == HTTPS || kind == HTTP2 }

// Variants returns the variants that a kind of server has, the bare one first.
func Variants(kind string) []string {
	if kind == Gnet {
		return []string{Bare, Ours}
	}
	return []string{Bare, Own, Ours}
}

// A Config says which server runs, and under which limits.
type Config struct {
	Kind, Variant string
	Own           time.Duration       // every timeout that the server has, in the variant Own
	Policy        idle.Policy         // of Net and Gnet, in the variant Ours
	Timeouts      httplimits.Timeouts // of the others, in the variant Ours

	Web  *http.Server     // nil for one that answers with Greeting
	Fast *fasthttp.Server // the same
}

// Greeting is what HTTP servers answer.
const Greeting = "hello, world"

// A Server is a server under test, which serves.
type Server struct {
	Address string
	Stats   func() idle.Stats // of the variant Ours

	serve func() error // returns when the server is stopped
	boot  chan struct{}
	stop  func() error
	ended chan error // has what serve has returned
}

// Start starts a server on loopback.
func Start(c Config) (*Server, error) {
	s := &Server{boot: make(chan struct{}), ended: make(chan error, 1)}
	if c.Kind == Gnet {
		if err := s.makeGnet(c); err != nil {
			return nil, err
		}
	} else {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		s.Address = ln.Addr().String()
		makes := s.makeHTTP
		switch c.Kind {
		case Net:
			makes = s.makeNet
		case Fasthttp:
			makes = s.makeFasthttp
		}
		if err := makes(c, ln); err != nil {
			return nil, errors.Join(err, ln.Close())
		}
		close(s.boot)
	}
	go func() { s.ended <- s.serve() }()
	select {
	case <-s.boot:
		return s, nil
	case err := <-s.ended:
		return nil, fmt.Errorf("the server did not start: %w", err)
	}
}

// Stop ends the server, and waits for that. Connections to an echo server of package net go on.
func (s *Server) Stop() error { return errors.Join(s.stop(), <-s.ended) }

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
