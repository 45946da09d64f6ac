package idlehttp

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// A relay serves HTTP/2 connections of a server through a second server, whose function for
// HTTP/2 accepts any net.Conn. The requests go to the handler of the first one.
//
// It is for Go 1.27 and later, where the functions in TLSNextProto are not the ones that
// serve HTTP/2. The second server has the settings of the first one.
type relay struct {
	server *http.Server
	second func() *secondServer // makes it at the first call
}

// A secondServer is a server, and its function that serves a connection of HTTP/2.
type secondServer struct {
	*http.Server
	serve serveConn
}

// serveConn is the type of net/http's function that serves a connection of HTTP/2. seen
// says whether the client's preface has been read.
type serveConn = func(ctx context.Context, nc net.Conn, h http.Handler, seen bool, upgrade *http.Request, settings []byte)

// newRelay returns a relay for s. It reads the settings of s when it is first
// used: when s serves already, and they do not change any more.
func newRelay(s *http.Server) *relay {
	r := &relay{server: s}
	r.second = sync.OnceValue(r.makeSecond)
	return r
}

// makeSecond returns the second server. All exported fields are copied, including any that later
// versions of Go add. The fields about connections are replaced after that.
func (r *relay) makeSecond() *secondServer {
	second := &secondServer{Server: new(http.Server)}
	to, from := reflect.ValueOf(second.Server).Elem(), reflect.ValueOf(r.server).Elem()
	for i := range to.NumField() {
		if to.Type().Field(i).IsExported() {
			to.Field(i).Set(from.Field(i))
		}
	}
	second.TLSConfig, second.TLSNextProto = nil, nil
	off, secondOff := keepAlivesOff(r.server), keepAlivesOff(second.Server)
	second.ConnState = func(nc net.Conn, to http.ConnState) {
		if off := off.Load(); off != secondOff.Load() { // it matters when a connection becomes idle
			second.SetKeepAlivesEnabled(!off)
		}
		// The first server reports the beginning and the end of connections itself.
		if (to == http.StateActive || to == http.StateIdle) && r.server.ConnState != nil {
			r.server.ConnState(nc, to)
		}
	}
	second.Serve(registration{second: second}) // it doesn't serve; see registration
	return second
}

// A registration is a listener through which x/net/http2.ConfigureServer passes its settings to
// net/http. In return it gets net/http's function that serves a connection.
type registration struct {
	nowhere
	second *secondServer
}

func (registration) HTTP2Config() http.HTTP2Config { return http.HTTP2Config{} }
func (registration) IdleTimeout() time.Duration    { return 0 }
func (r registration) ServeConnFunc(f serveConn)   { r.second.serve = f }

// keepAlivesOff returns what SetKeepAlivesEnabled sets. net/http doesn't export that, so it is
// read from a field of s. If a later version of Go keeps it elsewhere, the result is always
// false.
func keepAlivesOff(s *http.Server) *atomic.Bool {
	field := reflect.ValueOf(s).Elem().FieldByName("disableKeepAlives")
	if !field.IsValid() || field.Type() != reflect.TypeFor[atomic.Bool]() {
		return new(atomic.Bool)
	}
	return (*atomic.Bool)(field.Addr().UnsafePointer())
}

// serveTLS serves tc, as functions of http.Server.TLSNextProto do.
func (r *relay) serveTLS(_ *http.Server, tc *tls.Conn, h http.Handler) { r.serve(tc, false, h) }

// servePlain serves the connection in a [shell] below tc. The client's preface has
// been read from it.
func (r *relay) servePlain(_ *http.Server, tc *tls.Conn, h http.Handler) {
	r.serve(unwrap(tc), true, h)
}

// serve serves nc until its end. net/http passes the first server's context by an
// undocumented method of the handler.
func (r *relay) serve(nc net.Conn, seen bool, h http.Handler) {
	ctx := context.Background()
	if h, ok := h.(interface{ BaseContext() context.Context }); ok {
		ctx = h.BaseContext()
	}
	r.second().serve(ctx, nc, h, seen, nil, nil)
}

// canRelay reports whether this version of net/http hands out its function that serves a
// connection.
func canRelay() bool {
	probe := &secondServer{Server: new(http.Server)}
	probe.Serve(registration{second: probe})
	return probe.serve != nil
}

// shutdown makes the clients' streams end gracefully. It does not wait for that.
func (r *relay) shutdown() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	r.second().Shutdown(now)
}
