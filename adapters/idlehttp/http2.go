package idlehttp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"

	"github.com/idlewheel/idlewheel/adapters/internal/http2conn"
	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
)

// The keys of http.Server.TLSNextProto under which HTTP/2 is served. The second is
// for connections without TLS: see [shell].
const (
	overTLS = "h2"
	plain   = "unencrypted_http2"
)

// hookHTTP2 has the frames of l's connections read, if s speaks HTTP/2.
//
// A connection is handed to the function that serves those without TLS, whether it
// has TLS or not, as that one takes any net.Conn. If there is none, which a later
// version of Go may bring about, frames are not read, and only the limits of
// connections count.
func (l *Listener) hookHTTP2(s *http.Server) {
	prepareHTTP2(s)
	serve, serveTLS := s.TLSNextProto[plain], s.TLSNextProto[overTLS]
	if serve == nil {
		return
	}
	s.TLSNextProto = maps.Clone(s.TLSNextProto)
	s.TLSNextProto[plain] = func(hs *http.Server, tc *tls.Conn, h http.Handler) {
		if framed := l.framed(unwrap(tc)); framed != nil {
			defer http2conn.Of(framed).End()
			tc = wrap(framed)
		}
		serve(hs, tc, h)
	}
	if serveTLS == nil {
		return
	}
	s.TLSNextProto[overTLS] = func(hs *http.Server, tc *tls.Conn, h http.Handler) {
		if httpconn.Find(l.Listener, tc) == nil {
			serveTLS(hs, tc, h)
			return
		}
		if !readPreface(hs, tc) {
			tc.Close()
			return
		}
		framed := l.framed(tc)
		if framed == nil { // it was hijacked by a hook
			tc.Close()
			return
		}
		defer http2conn.Of(framed).End()
		serve(hs, wrap(framed), h)
	}
}

// framed returns nc with its frames read, nil if it is not l's.
func (l *Listener) framed(nc net.Conn) net.Conn {
	if nc == nil || http2conn.Of(nc) != nil {
		return nil
	}
	return httpconn.ReadFrames(l.Listener, nc)
}

// prepareHTTP2 has net/http fill in s.TLSNextProto, which it does otherwise when
// it begins to serve. Then it would be too late to change that without a race.
//
// It cannot be asked to. But the functions serve connections of any server, so they
// can be those of another one, which is begun to be served for a moment.
func prepareHTTP2(s *http.Server) {
	if s.TLSNextProto != nil {
		return
	}
	other := &http.Server{Protocols: s.Protocols}
	if s.TLSConfig != nil { // if it makes no sense, s reports that when it serves
		other.TLSConfig = s.TLSConfig.Clone()
		other.TLSConfig.NextProtos = append(slices.Clone(s.TLSConfig.NextProtos), overTLS)
	}
	if err := other.Serve(nowhere{}); !errors.Is(err, errNowhere) || other.TLSNextProto == nil {
		return
	}
	s.TLSNextProto = other.TLSNextProto
	s.RegisterOnShutdown(func() { other.Shutdown(context.Background()) }) // has streams end in good order
}

// nowhere is a listener that nobody can connect to.
type nowhere struct{}

var errNowhere = errors.New("idlehttp: nobody can connect")

func (nowhere) Accept() (net.Conn, error) { return nil, errNowhere }
func (nowhere) Close() error              { return nil }
func (nowhere) Addr() net.Addr            { return &net.TCPAddr{} }

// A shell is by which net/http hands on a connection without TLS where a *tls.Conn
// is wanted: as the connection under one.
type shell struct {
	net.Conn // nil
	plain    net.Conn
}

// UnencryptedNetConn returns the connection proper.
func (s shell) UnencryptedNetConn() net.Conn { return s.plain }

func wrap(nc net.Conn) *tls.Conn { return tls.Client(shell{plain: nc}, nil) }

// unwrap returns what is in a shell, nil if there is none.
func unwrap(tc *tls.Conn) net.Conn {
	if s, ok := tc.NetConn().(interface{ UnencryptedNetConn() net.Conn }); ok {
		return s.UnencryptedNetConn()
	}
	return nil
}

// readPreface reads what a client says first, and reports whether it has. What
// else comes is logged as net/http does.
func readPreface(hs *http.Server, nc net.Conn) bool {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	got := make([]byte, len(preface))
	if _, err := io.ReadFull(nc, got); err != nil {
		return false
	}
	if string(got) == preface {
		return true
	}
	logger := hs.ErrorLog
	if logger == nil {
		logger = log.Default()
	}
	logger.Printf("http2: server: error reading preface from client %v: bogus greeting %q", nc.RemoteAddr(), got)
	return false
}
