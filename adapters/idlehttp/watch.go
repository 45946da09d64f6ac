package idlehttp

import (
	"errors"
	"net/http"

	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
	"github.com/idlewheel/idlewheel/idle"
)

// watched is a connection as the contexts of its requests have it.
type watched struct {
	listener *httpconn.Listener
	conn     *httpconn.Conn
}

// connKey is the key of a watched connection.
type connKey struct{}

// Watch puts the connection of r, which has been hijacked, under the policy p,
// and calls ping, which may block, as p's active Heartbeat says. It is for
// WebSockets, once they are accepted:
//
//	ws, err := websocket.Accept(w, r, nil)
//	...
//	err = idlehttp.Watch(r, idle.Policy{
//		Heartbeat: idle.Heartbeat{Interval: 30 * time.Second, Timeout: 10 * time.Second, Misses: 2},
//	}, func() error { go ws.Ping(context.Background()); return nil })
//
// Whatever arrives is an answer to a ping, so ping need not wait for one: while
// it blocks there is no other, though misses count on. (The Ping of
// github.com/coder/websocket waits for its pong.)
//
// All limits count from the call, the age too. A policy that wants a finer tick
// than the listener has gets it, unless Timeouts.Idle.Tick is set. Watch may be
// called again, for another policy; one without limits lets the connection go, as
// after a hijack.
//
// When a limit is passed, the reads and writes of the WebSocket fail with an error
// in which errors.As finds an *idle.TimeoutError. gorilla/websocket v1.5.1 replaces
// it by an error of its own. Timeouts.OnTimeout gets the original, and the
// connection keeps it (with TLS, the NetConn of the *tls.Conn does):
//
//	if c, ok := ws.NetConn().(interface{ Timeout() *idle.TimeoutError }); ok { ... }
//
// Watch fails if r did not come over HTTP/1 by a listener of this package, or was
// not hijacked; if something in p makes no sense; if the connection is closed or has
// timed out; and if the listener is closed and was left without any connection that
// has limits, so that its timeouts have ended.
func Watch(r *http.Request, p idle.Policy, ping func() error) error {
	w, ok := r.Context().Value(connKey{}).(watched)
	if !ok {
		return errors.New("idlehttp: Watch: the request did not come by a listener of this package")
	}
	if r.ProtoMajor != 1 {
		return errors.New("idlehttp: Watch: a request of HTTP/2 has no connection of its own")
	}
	return httpconn.Watch(w.listener, w.conn, p, ping)
}
