package idlehttp

import (
	"errors"
	"net/http"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
	"github.com/idlewheel/idlewheel/idle"
)

// Watch applies the policy p to the connection of r, which must have been
// hijacked. Then the connection calls the functions of on, such as its Ping for p's active
// Heartbeat. Use it for WebSockets once they are accepted:
//
//	ws, err := websocket.Accept(w, r, nil)
//	...
//	err = idlehttp.Watch(r, idle.Policy{
//		Heartbeat: idle.Heartbeat{Interval: 30 * time.Second, Timeout: 10 * time.Second, Misses: 2},
//	}, idlehttp.Callbacks{Ping: func() error { return ws.Ping(context.Background()) }})
//
// Ping runs on a goroutine of its own and may block. For example, Ping of
// github.com/coder/websocket waits for the pong. While it blocks it isn't called again, but misses
// still count. Any input counts as an answer.
//
// Pings and their answers are bytes, so they count as use. A policy that also has an IdleTimeout longer than the Interval
// would never be idle, and is refused, unless it has ExplicitUse. Then call Use for each message that is use.
//
// The limits count from the call of Watch, except MaxAge, which counts from when the connection was
// accepted. They are as exact as Timeouts.Idle.Tick, which is 10 ms by default. Watch may be called
// again to apply another policy, such as one without limits.
//
// When a limit has passed, reads and writes of the WebSocket fail with an error in which
// errors.As finds an *idle.TimeoutError. An exception is gorilla/websocket v1.5.1, which replaces
// the error with its own. Timeouts.OnTimeout gets the original error, and the connection keeps
// it. With TLS, the NetConn of the *tls.Conn keeps it:
//
//	if c, ok := ws.NetConn().(interface{ Timeout() *idle.TimeoutError }); ok { ... }
//
// With a passive Heartbeat, call Beat for each message that is one. The connection has Beat and Use, and
// with TLS the NetConn of the *tls.Conn. If a library doesn't give access to the connection, keep the one that
// http.Server.ConnContext gets.
//
//	if c, ok := ws.NetConn().(interface{ Beat() }); ok { c.Beat() }
//
// Watch fails if
//
//   - r is not an HTTP/1 request on a listener of this package, or was not
//     hijacked;
//   - p is invalid;
//   - the connection is closed or has timed out, or its tracker is closed.
func Watch(r *http.Request, p idle.Policy, on Callbacks) error {
	if r == nil {
		return errors.New("idlehttp: Watch: the request is nil")
	}
	c := connOf(r)
	if c == nil {
		return errors.New("idlehttp: Watch: the request did not arrive on a listener of this package")
	}
	if r.ProtoMajor != 1 {
		return errors.New("idlehttp: Watch: an HTTP/2 request does not have a connection of its own; use an HTTP/1 request")
	}
	return httpconn.Watch("idlehttp", c, p, on)
}

// Callbacks are the functions that [Watch] is given. See [httplimits.Callbacks],
// which both HTTP adapters share.
type Callbacks = httplimits.Callbacks
