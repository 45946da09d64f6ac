package httplimits

import "github.com/idlewheel/idlewheel/idle"

// Callbacks are functions that a watched connection calls; see Watch of the adapter. Each runs on a
// goroutine of its own, and any of them may be nil. A panic is logged and counted.
type Callbacks struct {
	// Ping pings the peer. An active Heartbeat requires it. Pings and their answers count as use, unless
	// the policy has ExplicitUse. A policy with an IdleTimeout longer than the Interval needs that.
	Ping func() error

	// OnDrain asks the peer to finish. It is called in a Shutdown or Drain, and the connection
	// ends Drain.CloseDelay later. With a MaxAgeGrace it is also called when MaxAge of the policy
	// has passed, and the connection ends when the MaxAgeGrace has passed since then. A WebSocket
	// sends a message of its own here that asks the client to close. With a close frame, what the
	// client is sending at that moment would be lost.
	OnDrain func()

	// OnEnd is called once when the connection has timed out, after Timeouts.OnTimeout, or was
	// ended in another way, such as by a Drain or End. Only limits call OnTimeout, and MaxAge
	// doesn't. OnEnd may write a farewell, but not after a limit of writing. The connection is closed when OnEnd and then
	// Timeouts.OnEnd have returned, or a second after OnEnd began. Nothing is read
	// any more, so OnEnd must not wait for an answer: send the close frame of a WebSocket, but don't wait for the peer's.
	// WriteControl of gorilla/websocket doesn't. Close of coder/websocket does, which takes that second, so send a message instead.
	OnEnd func(err *idle.TimeoutError)
}
