package idlehttp

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
)

// A relay serves HTTP/2 connections of a server by means of a second server,
// which accepts any net.Conn. The requests go to the handler of the first one.
//
// It is for versions of Go whose net/http has no function that does so, which is
// Go 1.27 and later: there the functions in TLSNextProto are not the ones that
// serve HTTP/2. The second server has the settings of the first one.
type relay struct {
	server *http.Server
	second func() *http.Server // makes it at the first call
}

// newRelay returns a relay for s. It reads the settings of s when it is first
// used: when s serves already, and they do not change any more.
func newRelay(s *http.Server) *relay {
	r := &relay{server: s}
	r.second = sync.OnceValue(r.makeSecond)
	return r
}

// makeSecond returns the second server. All exported fields are copied, those too
// that later versions of Go add. The ones about connections are replaced after that.
func (r *relay) makeSecond() *http.Server {
	second := new(http.Server)
	to, from := reflect.ValueOf(second).Elem(), reflect.ValueOf(r.server).Elem()
	for i := range to.NumField() {
		if to.Type().Field(i).IsExported() {
			to.Field(i).Set(from.Field(i))
		}
	}
	second.Protocols = new(http.Protocols)
	second.Protocols.SetHTTP2(true)
	second.Protocols.SetUnencryptedHTTP2(true)
	second.TLSConfig, second.TLSNextProto = nil, nil
	second.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		q.Context().Value(handlerKey{}).(http.Handler).ServeHTTP(w, q)
	})
	second.DisableGeneralOptionsHandler = true // the first server has it
	second.BaseContext = nil
	second.ConnContext = func(_ context.Context, nc net.Conn) context.Context { return relayedOf(nc).context() }
	off, secondOff := keepAlivesOff(r.server), keepAlivesOff(second)
	second.ConnState = func(nc net.Conn, to http.ConnState) {
		if off := off.Load(); off != secondOff.Load() { // it matters when a connection becomes idle
			second.SetKeepAlivesEnabled(!off)
		}
		r.onState(nc, to)
	}
	return second
}

// onState is the second server's ConnState. The first server reports the
// beginning and the end of connections itself.
func (r *relay) onState(nc net.Conn, to http.ConnState) {
	c := relayedOf(nc)
	switch to {
	case http.StateActive, http.StateIdle:
		if r.server.ConnState != nil {
			r.server.ConnState(c.Conn, to)
		}
	case http.StateClosed:
		close(c.done)
	}
}

// keepAlivesOff returns what SetKeepAlivesEnabled sets. net/http does not tell it, so
// it is looked up in s. If a later version of Go keeps it elsewhere, the result is
// always false.
func keepAlivesOff(s *http.Server) *atomic.Bool {
	field := reflect.ValueOf(s).Elem().FieldByName("disableKeepAlives")
	if !field.IsValid() || field.Type() != reflect.TypeFor[atomic.Bool]() {
		return new(atomic.Bool)
	}
	return (*atomic.Bool)(field.Addr().UnsafePointer())
}

// handlerKey is the context key of the handler for the requests of a connection.
type handlerKey struct{}

// serveTLS serves tc, as functions of http.Server.TLSNextProto do.
func (r *relay) serveTLS(_ *http.Server, tc *tls.Conn, h http.Handler) { r.serve(tc, "", h) }

// servePlain serves the connection in a [shell] below tc. The client's preface has
// been read from it.
func (r *relay) servePlain(_ *http.Server, tc *tls.Conn, h http.Handler) {
	r.serve(unwrap(tc), preface, h)
}

// serve serves nc until its end. unread is what the client has sent and the second
// server has to read before it reads from nc.
func (r *relay) serve(nc net.Conn, unread string, h http.Handler) {
	c := &relayed{Conn: nc, unread: unread, handler: h, done: make(chan struct{})}
	l := &single{conn: c}
	if secure, ok := nc.(secure); ok {
		l.conn = relayedTLS{c, secure}
	}
	r.second().Serve(l)
	if l.conn != nil { // the server is shutting down
		nc.Close()
		return
	}
	<-c.done
}

// shutdown makes the clients' streams end gracefully. It does not wait for that.
func (r *relay) shutdown() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	r.second().Shutdown(now)
}

// A relayed is a connection as the second server knows it.
type relayed struct {
	net.Conn
	unread  string
	handler http.Handler
	done    chan struct{} // closed when the second server is done with the connection
}

// Read reads what is unread, and then from the connection.
func (c *relayed) Read(b []byte) (int, error) {
	if c.unread != "" {
		n := copy(b, c.unread)
		c.unread = c.unread[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// context returns the context for the connection's requests. net/http passes the
// first server's context by an undocumented method of the handler.
func (c *relayed) context() context.Context {
	ctx := context.Background()
	if h, ok := c.handler.(interface{ BaseContext() context.Context }); ok {
		ctx = h.BaseContext()
	}
	return context.WithValue(ctx, handlerKey{}, c.handler)
}

// secure is implemented by connections with TLS. A server looks for this method.
type secure interface{ ConnectionState() tls.ConnectionState }

// A relayedTLS is a relayed with TLS.
type relayedTLS struct {
	*relayed
	secure
}

// relayedOf returns the relayed that nc is, with TLS or without.
func relayedOf(nc net.Conn) *relayed {
	if c, ok := nc.(relayedTLS); ok {
		return c.relayed
	}
	return nc.(*relayed)
}

// A single is a listener that accepts one connection.
type single struct {
	nowhere
	conn net.Conn // nil once it has been accepted
}

func (s *single) Accept() (net.Conn, error) {
	if s.conn == nil {
		return nil, errNowhere
	}
	nc := s.conn
	s.conn = nil
	return nc, nil
}
