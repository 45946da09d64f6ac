package idlehttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/http2conn"
	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
)

// Timeouts says how long a connection may take for what. It is documented as
// [httplimits.Timeouts], for both HTTP adapters.
type Timeouts = httplimits.Timeouts

// Off disables a limit of [Timeouts].
const Off = httplimits.Off

// Stats are the counts of a [Listener]: see [httplimits.Stats].
type Stats = httplimits.Stats

// Listener is a net.Listener whose connections have timeouts; see package httplimits.
// Besides Accept, Addr and Close it has
//
//	Stats() Stats           // the present counts
//	Tracker() *idle.Tracker // tracks the connections
type Listener struct{ *httpconn.Listener }

// Serve serves HTTP on ln with the timeouts t, as s.Serve does. It fails with
// an error that names the field if one makes no sense, or if s has timeouts of
// its own; ln is closed then. It is for a server with one listener, as it sets
// hooks of s: if there are more, call [NewListener] for all of them first.
func Serve(s *http.Server, ln net.Listener, t Timeouts) error {
	return httpconn.Serve(s, ln, t, NewListener, s.Serve)
}

// ServeTLS is [Serve] for HTTPS, as s.ServeTLS.
func ServeTLS(s *http.Server, ln net.Listener, certFile, keyFile string, t Timeouts) error {
	return httpconn.Serve(s, ln, t, NewListener, func(l net.Listener) error { return s.ServeTLS(l, certFile, keyFile) })
}

// NewListener prepares s for the timeouts t, and returns the listener on which
// it is to be served: s.Serve(l), or s.ServeTLS(l, ...). It is what [Serve]
// does, for those who want the listener's counts.
//
// ln may be a listener of crypto/tls, as it may for s.Serve; see package httplimits
// for what is refused.
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
	h2 := httpconn.OverTLS
	if s.Protocols != nil && s.Protocols.UnencryptedHTTP2() {
		h2 = httpconn.HTTP2Also
	}
	inner, err := httpconn.NewListener("idlehttp", ln, t, h2)
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
		if c := httpconn.Find(l.Listener, nc); c != nil {
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
		if c := httpconn.Find(l.Listener, nc); c != nil {
			ctx = context.WithValue(ctx, connKey{}, watched{l.Listener, c})
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
