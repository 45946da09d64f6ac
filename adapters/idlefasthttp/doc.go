// Package idlefasthttp gives a fasthttp.Server all its timeouts from a timing wheel, at a
// fraction of the cost of the server's own.
//
//	err := idlefasthttp.Serve(&fasthttp.Server{Handler: h}, ln, idlefasthttp.Timeouts{})
//
// Each phase of a request has a limit of its own: handshake, header, body,
// handler, response, keep-alive wait. With the zero [Timeouts], slow clients can't hold a
// server. Package httplimits describes them.
//
// The server's own ReadTimeout, WriteTimeout and IdleTimeout must be 0. A ReadTimeout
// that HeaderReceived returns for a request applies in addition to the limits here. So
// does a read deadline that a handler sets, but it replaces the limits of the body.
//
// # Shutting down
//
// [Shutdown] asks the clients to leave at an even rate, hijacked connections included, and
// then shuts the server down.
//
// Shutdown of the server itself works as usual. The timeouts go on meanwhile, so slow
// clients cannot hold it up. It does not wait for connections that were hijacked.
//
// # WebSockets
//
// A hijacked connection is under Timeouts.Hijacked, which has no limit by default.
// Close it in the end, even without limits, because the listener's tracker refers to it.
// [Watch] gives it limits and heartbeats of its own, in its HijackHandler. The
// Ping function may write to the connection. What it writes goes out at once. If the
// handler writes by a bufio.Writer, the Ping function has to use that too, under a lock,
// and flush it. OnDrain and OnEnd of [Callbacks] let a WebSocket say farewell.
//
// # Testing
//
// A fasthttp server can run in a bubble of testing/synctest, on a listener of package
// idletest. All goroutines of a bubble have to end, and two of fasthttp's don't by themselves.
// One starts with the first response and never ends, so let some server answer a request
// outside of the bubble first. The pool of workers ends 10 s after Shutdown, so sleep for
// 11 s before the bubble ends. docs/testing.md has a test.
//
// # What clients see
//
// A request whose header or body takes too long is answered with 408, after the responses to the requests
// before it, and the connection is closed. An ErrorHandler of the server makes that answer itself. A connection that waits
// for its next request for too long is closed silently. The server's own log stays quiet, except for
// timeouts in a chunked trailer, for which fasthttp makes an error of its own.
//
// With HandlerTimeout, each handler runs on a goroutine of its own, as with [fasthttp.TimeoutHandler], and the rules for that
// one's ctx hold. When it passes, the request is answered with 503.
//
// Server.MaxConnsPerIP is refused, because its wrapper hides connections with TLS. PerKey of package adapters/admit
// replaces it, below the timeouts. Clients that Concurrency refuses get fasthttp's 503. Over TLS, fasthttp closes their
// connections without an answer.
//
// The adapter is for fasthttp v1.78 and later, and tested with v1.78.0. Versions before v1.76
// report StateActive earlier, which the adapter doesn't support.
package idlefasthttp
