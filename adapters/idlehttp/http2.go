package idlehttp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"

	"github.com/idlewheel/idlewheel/adapters/internal/http2conn"
	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
)

// Keys of http.Server.TLSNextProto for HTTP/2, with and without TLS. For the
// second see [shell].
const (
	overTLS = "h2"
	plain   = "unencrypted_http2"
)

// hookHTTP2 makes s serve l's HTTP/2 connections through readers of their frames.
//
// The function that serves connections without TLS accepts any net.Conn. So it
// serves all of them here, those with TLS too.
//
// There is no such function if the user has set s.TLSNextProto without one. Nor is
// there one if x/net/http2.ConfigureServer has been called and Go is 1.27 or later:
// then net/http does not use s.TLSNextProto. In these cases frames are not read, and
// only the limits of connections apply. The log says so.
func (l *Listener) hookHTTP2(s *http.Server) {
	prepareHTTP2(s)
	serve, serveTLS := s.TLSNextProto[plain], s.TLSNextProto[overTLS]
	if serve == nil {
		if serveTLS != nil {
			s.ErrorLog.Print("idlehttp: the limits of single streams do not apply, because HTTP/2 is served by " +
				"a function of the user's in Server.TLSNextProto, or by x/net/http2.ConfigureServer; configure HTTP/2 by Server.HTTP2 instead")
		}
		return
	}
	s.TLSNextProto = maps.Clone(s.TLSNextProto)
	s.TLSNextProto[plain] = func(hs *http.Server, tc *tls.Conn, h http.Handler) {
		if framed := httpconn.ReadFrames(l.inner, unwrap(tc)); framed != nil {
			defer http2conn.Of(framed).End()
			tc = wrap(framed)
		}
		serve(hs, tc, h)
	}
	if serveTLS == nil {
		return
	}
	s.TLSNextProto[overTLS] = func(hs *http.Server, tc *tls.Conn, h http.Handler) {
		if httpconn.Find(l.inner, tc) == nil {
			serveTLS(hs, tc, h)
			return
		}
		if !readPreface(hs, tc) { // net/http closes the connection
			return
		}
		framed := httpconn.ReadFrames(l.inner, tc)
		if framed == nil { // a hook has hijacked it
			return
		}
		defer http2conn.Of(framed).End()
		serve(hs, wrap(framed), h)
	}
}

// prepareHTTP2 fills in s.TLSNextProto with functions that serve HTTP/2, unless the
// user has. Otherwise net/http would fill it in when it begins to serve, and changing
// the map then would be a race with the connections of other listeners.
//
// net/http fills in the map of another server when that is served for a moment. Up to Go 1.26 the
// functions there serve the connections of any server, so they can be taken from it. Since Go
// 1.27 they only close connections, and there is none for connections without TLS. Then s gets
// the functions of a [relay].
func prepareHTTP2(s *http.Server) {
	if s.TLSNextProto != nil {
		return
	}
	other := &http.Server{Protocols: s.Protocols}
	if s.TLSConfig != nil { // if TLSConfig is invalid, s reports that when it serves
		other.TLSConfig = s.TLSConfig.Clone()
		other.TLSConfig.NextProtos = append(slices.Clone(s.TLSConfig.NextProtos), overTLS)
	}
	if err := other.Serve(nowhere{}); !errors.Is(err, errNowhere) || other.TLSNextProto == nil {
		return
	}
	if other.TLSNextProto[plain] != nil {
		s.TLSNextProto = other.TLSNextProto
		s.RegisterOnShutdown(func() { other.Shutdown(context.Background()) }) // lets streams end gracefully
		return
	}
	if !canRelay() {
		s.ErrorLog.Print("idlehttp: the limits of single streams do not apply, because this version of net/http does not tell how it serves HTTP/2")
		return
	}
	r := newRelay(s)
	s.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){overTLS: r.serveTLS, plain: r.servePlain}
	s.RegisterOnShutdown(r.shutdown)
}

// nowhere is a listener that accepts no connections.
type nowhere struct{}

var errNowhere = errors.New("idlehttp: nobody can connect")

func (nowhere) Accept() (net.Conn, error) { return nil, errNowhere }
func (nowhere) Close() error              { return nil }
func (nowhere) Addr() net.Addr            { return &net.TCPAddr{} }

// A shell wraps a connection without TLS where net/http requires a *tls.Conn: the
// shell is the connection below that.
type shell struct {
	net.Conn // nil
	plain    net.Conn
}

// UnencryptedNetConn returns the wrapped connection. net/http looks for this
// method.
func (s shell) UnencryptedNetConn() net.Conn { return s.plain }

// wrap returns a *tls.Conn on top of a shell around nc.
func wrap(nc net.Conn) *tls.Conn { return tls.Client(shell{plain: nc}, nil) }

// unwrap returns the connection in a shell below tc, or nil if there is no shell.
func unwrap(tc *tls.Conn) net.Conn {
	if s, ok := tc.NetConn().(interface{ UnencryptedNetConn() net.Conn }); ok {
		return s.UnencryptedNetConn()
	}
	return nil
}

const preface = http2conn.Preface

// readPreface reads the client's connection preface and reports whether it is
// HTTP/2's. It logs any other preface, as net/http does.
func readPreface(hs *http.Server, nc net.Conn) bool {
	got := make([]byte, len(preface))
	if _, err := io.ReadFull(nc, got); err != nil {
		return false
	}
	if string(got) == preface {
		return true
	}
	hs.ErrorLog.Printf("http2: server: error reading preface from client %v: bogus greeting %q", nc.RemoteAddr(), got)
	return false
}
