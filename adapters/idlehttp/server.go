// Package idlehttp gives an http.Server all its timeouts from a timing wheel, at
// a fraction of what the server's own cost.
//
//	err := idlehttp.Serve(&http.Server{Handler: h}, ln, idlehttp.Timeouts{})
//
// Each phase of a request has a limit of its own: handshake, header, body,
// handler, response, keep-alive wait. The zero [Timeouts] are defaults by which
// slow clients cannot hold a server.
//
// A request whose header or body takes too long is answered with 408, unless its
// response has begun, and the connection is closed; one that is idle is closed
// silently. The server's own log stays quiet. With TLS it is not known whether
// an interim "100 Continue" or the response has been written, so that a body
// that was asked for by one is not answered. A header of which the beginning
// came with the request before is taken for begun when more of it comes.
//
// In HTTP/2 the limits are kept by what the frames tell. A client that does not
// send the body of a request, or does not take the response, has that stream
// reset, and the others live. The fields of Timeouts say what each limit is there.
// What no limit ends is a stream on which neither side owes anything by its
// frames: a handler that takes long, and a body that trickles after the response
// has begun.
//
// The server's own ReadTimeout, ReadHeaderTimeout, WriteTimeout and IdleTimeout
// have to be 0.
package idlehttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/http2conn"
	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
	"github.com/idlewheel/idlewheel/idle"
)

const pkg = "idlehttp"

// Stats are the counts of a [Listener]. A connection that is hijacked and has no
// limit then counts as gone, unless Watch gives it one.
type Stats struct {
	idle.Stats

	// Phases is how many connections have timed out in each phase, by name. That
	// of "request stream" is how many streams of HTTP/2 have been reset; the
	// connections may live on, and are not counted for it anywhere else.
	Phases map[string]uint64
}

// Listener is a net.Listener of which the connections have timeouts.
type Listener struct{ inner *httpconn.Listener }

// Serve serves HTTP on ln with the timeouts t, as s.Serve does. It fails with
// an error that names the field if one makes no sense, or if s has timeouts of
// its own; ln is closed then. It is for a server with one listener, as it sets
// hooks of s: if there are more, call [NewListener] for all of them first.
func Serve(s *http.Server, ln net.Listener, t Timeouts) error {
	l, err := NewListener(s, ln, t)
	if err != nil {
		return closing(ln, err)
	}
	defer l.Close()
	return s.Serve(l)
}

// ServeTLS is [Serve] for HTTPS, as s.ServeTLS.
func ServeTLS(s *http.Server, ln net.Listener, certFile, keyFile string, t Timeouts) error {
	l, err := NewListener(s, ln, t)
	if err != nil {
		return closing(ln, err)
	}
	defer l.Close()
	return s.ServeTLS(l, certFile, keyFile)
}

func closing(ln net.Listener, err error) error {
	if ln != nil {
		ln.Close()
	}
	return err
}

// NewListener prepares s for the timeouts t, and returns the listener on which
// it is to be served: s.Serve(l), or s.ServeTLS(l, ...). It is what [Serve]
// does, for those who want the listener's counts.
//
// ln may be a listener of crypto/tls, as it may for s.Serve; but TLS has to be
// outermost. A listener that wraps a TLS listener, as netutil.LimitListener may, is
// refused: timeouts have to be below TLS, and there it is out of reach. So is a
// connection that brings TLS of its own, when it is accepted, which ends Serve.
//
// It sets ConnState, ConnContext, ErrorLog and TLSNextProto of s to ones that hand
// on to those which were there, so they must be set before, and not be changed any
// more. (From the log it takes lines about handshakes that timed out.) Protocols,
// HTTP2 and TLSConfig must be set before as well; so must x/net/http2 have been
// configured, if it is used. s can be prepared for several listeners, and serve
// others beside them, but must not serve yet.
func NewListener(s *http.Server, ln net.Listener, t Timeouts) (*Listener, error) {
	if err := check(s); err != nil {
		return nil, err
	}
	if _, twice := ln.(*Listener); twice {
		return nil, errors.New("idlehttp: the listener has timeouts already; wrap it once")
	}
	limits := t.limits()
	limits.HTTP2 = s.Protocols != nil && s.Protocols.UnencryptedHTTP2()
	inner, err := httpconn.NewListener(pkg, ln, limits)
	if err != nil {
		return nil, err
	}
	l := &Listener{inner}
	l.hook(s)
	l.hookHTTP2(s)
	return l, nil
}

// check refuses a server whose own timeouts would work against those here.
func check(s *http.Server) error {
	if s == nil {
		return errors.New("idlehttp: the server is nil")
	}
	for _, own := range []struct {
		name  string
		value time.Duration
		ours  string
	}{
		{"ReadTimeout", s.ReadTimeout, "HeaderTimeout and BodyTimeout"},
		{"ReadHeaderTimeout", s.ReadHeaderTimeout, "HeaderTimeout"},
		{"WriteTimeout", s.WriteTimeout, "WriteTimeout"},
		{"IdleTimeout", s.IdleTimeout, "KeepAliveTimeout"},
	} {
		if own.value > 0 {
			return fmt.Errorf("idlehttp: Server.%s is %v; leave it 0, and set Timeouts.%s", own.name, own.value, own.ours)
		}
	}
	for proto := range s.TLSNextProto {
		if proto != "h2" && proto != "http/1.1" && proto != "unencrypted_http2" {
			return fmt.Errorf("idlehttp: Server.TLSNextProto has %q; net/http does not tell what becomes of connections that speak it", proto)
		}
	}
	return nil
}

// hook has s tell the connections of l what is going on.
func (l *Listener) hook(s *http.Server) {
	state, inContext := s.ConnState, s.ConnContext
	s.ConnState = func(nc net.Conn, to http.ConnState) {
		if c := l.inner.Find(nc); c != nil {
			if framed := http2conn.Of(nc); framed != nil { // its frames tell more
				nc = framed.NetConn()
			} else {
				changed(c, nc, to)
			}
		}
		if state != nil {
			state(nc, to)
		}
	}
	s.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		if inContext != nil {
			ctx = inContext(ctx, nc)
		}
		if c := l.inner.Find(nc); c != nil {
			ctx = context.WithValue(ctx, connKey{}, watched{l, c})
		}
		return ctx
	}
	s.ErrorLog = quiet(s.ErrorLog)
}

// changed tells c, as which or in which nc is known to the server, of its state.
func changed(c *httpconn.Conn, nc net.Conn, to http.ConnState) {
	switch to {
	case http.StateNew:
		c.Accepted(nc)
	case http.StateActive:
		c.HeaderRead()
	case http.StateIdle:
		c.Idle()
	case http.StateHijacked:
		c.Hijack()
	}
}

// Accept waits for the next connection. It is the server's to call.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.inner.Accept()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Addr returns the listener's address.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// Close closes the listener, but no connection; timeouts go on until the last of
// them is gone.
func (l *Listener) Close() error { return l.inner.Close() }

// Stats returns the present counts.
func (l *Listener) Stats() Stats {
	s := l.inner.Stats()
	s.Phases[httpconn.RequestStream] = s.Reset
	return Stats{s.Stats, s.Phases}
}
