// Package httplimits has what idlehttp and idlefasthttp share: [Timeouts], [Stats] and
// the behaviour of their listeners. Both adapters export these types under their own
// names, so a server imports only its adapter.
//
// # Phases
//
// A connection goes through phases, and each phase has its own limits. An
// [idle.TimeoutError] names the phase in which a connection timed out and the setting
// that it exceeded. Stats counts both.
//
//	phase           lasts                                             settings
//	handshake       from the accept to the first byte of a request,   HandshakeTimeout
//	                in net/http with TLS, and in HTTP/2, to the end
//	                of its header
//	request header  from there to the end of the header               HeaderTimeout
//	request         from there to the end of the response             BodyTimeout, BodyRate, HandlerTimeout,
//	                                                                  WriteTimeout, WriteRate
//	keep-alive      from there to the first byte of the next request  KeepAliveTimeout
//	streams         while streams of HTTP/2 are open                  StreamTimeout, WriteTimeout, WriteRate
//	request stream  a request of HTTP/2                               as for request
//	hijacked        after a hijack                                    the fields of its idle.Policy
//
// What arrives after a response begins a header, even if it's only a blank line. If a header begins in the same segment as
// the request before it, net/http doesn't report that, and KeepAliveTimeout counts until more of it arrives.
//
// MaxAge applies in all phases but the last. Hijacked has a MaxAge of its own.
//
// # Slow clients
//
// A client that sends nothing of its body is cut after 5.6 s, by the grace of BodyRate and an eighth of it
// (see [idle.Policy]). Every 240 bytes that it sends earn it another second, a minute at most. So BodyRate ends a pause after 5 s
// to 66 s, and BodyTimeout ends one after 30 s, by default. Whichever comes first ends it. To allow
// a pause of several minutes, make both longer, or turn the rate off:
//
//	BodyRate: idle.Rate{BytesPerSecond: httplimits.Off}
//
// The same goes for WriteTimeout and WriteRate.
//
// A client may read a response slowly. If it pauses, its receive window fills up, and it's cut
// when that lasts for the grace of WriteRate and what it has earned, or for WriteTimeout. Some
// clients pause on purpose. For example, curl --limit-rate lets the kernel receive a lot of a large
// file, and then doesn't read for a long time. nginx cuts such clients too (send_timeout). Servers of large files for them need a
// longer WriteTimeout, and a WriteRate with a longer Grace.
//
// # Bytes that wait
//
// Both servers write responses synchronously: a Write waits until the kernel has accepted the
// bytes, except for a buffer of 4 kB per connection or stream. So bytes that wait for a client are
// in the kernel's send buffer. WriteTimeout and WriteRate end clients that don't read. The buffer
// itself can be bounded with SetWriteBuffer of net.TCPConn or the system's net.ipv4.tcp_wmem.
//
// For a bound in bytes, call Visit of the tracker. Unsent of [idle.Info] returns how many bytes wait
// for a client, and its End ends it. An example of idlehttp ends the clients with most of them when
// memory runs short. Every client that reads more slowly than the server writes fills its buffer, so
// such a bound isn't for downloads.
//
// # Answers
//
// A header or a body that takes too long is answered with 408, and a handler that takes too long with 503, unless the
// handler has answered (net/http: has written a header or a part of the body). Its own answer is sent even if the
// rest of the request's body never comes. A handler of net/http whose read has failed may answer too: the 408 is sent
// when it returns and has not. The answers have no body. In HTTP/1 the connection is closed then, and the server has
// a second to answer. OnTimeout is called first, on its own goroutine. It may block, but shouldn't write to the
// connection.
//
// The ForceAfter of a drain, and End of [idle.Conn] and [idle.Info], cut a request without an
// answer, because the handler may go on with it.
//
// A request that arrives just as KeepAliveTimeout, a drain or an eviction ends its
// connection is either answered, or the server never sees it. In that case its client gets
// no byte of an answer, and in HTTP/2 a GOAWAY that does not include it, so the client may
// send it again.
//
// In HTTP/2, a limit of writing resets the stream, and so does HandlerTimeout if the response has begun. The
// connection and its other requests go on.
//
// A handler that reads a body gets an error in which errors.As finds the [idle.TimeoutError].
//
// If the clients of a route may pause in a body, such as in an upload by hand, give the route
// limits of its own (see below). In HTTP/2 it can flush the header of its response before it
// reads instead.
//
// # Changing timeouts
//
// SetTimeouts of a listener replaces its Timeouts, for open connections and streams too.
// It replaces all fields: here too, zero means the default.
//
// Once SetTimeouts has returned, no connection is ended by a limit that was replaced. So a longer
// limit holds at once. A shorter one counts from the same event as before, such as the last byte. The Grace of a rate
// may start over (see [idle.Policy]).
// A connection that has already waited for longer is ended when the tracker has checked it, which
// takes less than a second for a million connections. A rate that SetTimeouts
// turns on counts from the call.
//
// Some things are decided when they begin:
//
//   - If HandlerTimeout was off when a request began, there's no 503 before its handler returns. In an open HTTP/2
//     stream, it counts from its handler's first wait for the client.
//   - A policy that Watch has applied doesn't change with Hijacked.
//   - Limits that SetLimits has given to a request stay. Fields that it left zero change.
//
// The tracker and the options in Idle can't change: each option must be zero or the same as
// before. So a limit that is shorter than the tick is refused. A nil OnTimeout or OnEnd keeps the
// present function, and any other replaces it. A listener that was made without OnTimeout can't
// get one.
//
// If anything is refused, nothing is changed, and the error names the field. When the listener
// and all its connections have ended, the error matches [idle.ErrClosed].
//
// # Limits of one request
//
// SetLimits gives a request [RequestLimits] of its own, until its end: a longer
// BodyTimeout for an upload, or another WriteRate for a download. In HTTP/2 they apply to
// its stream. The connection keeps the listener's limits.
//
// # Replacing a server
//
// Two steps replace a server without a failed request. LameDuck of the adapter asks clients
// to leave while the server goes on accepting and serving, until load balancers have noticed
// that the readiness check fails (IsDraining of the listener). Then Shutdown stops accepting
// and ends the connections that are left:
//
//	err := idlehttp.LameDuck(ctx, 10*time.Second, ln)
//	...
//	err = idlehttp.Shutdown(ctx, idle.Drain{Duration: 10 * time.Second, ForceAfter: 30 * time.Second}, ln)
//
// # Listeners
//
// Wrap of an adapter returns the listener to serve. Closing it closes none of its
// connections. Their timeouts stay in force until the last of them is gone, so they also
// hold during a graceful shutdown.
//
// Stats returns the listener's counts. Its maps have an entry for each phase and for each
// field of Timeouts, even if its count is zero. Fields of idle.Policy, which limit hijacked
// connections, have an entry from the first timeout on.
//
// Tracker returns the [idle.Tracker] of its connections, for everything else, such as SetCapacity and Visit. A
// connection without room (see [idle.Capacity]) is closed, after a 503 with Retry-After if the header of its request
// has arrived. The tracker's own policy never applies, because each connection is in a phase, whose policy is made
// from Timeouts. So use SetTimeouts of the listener. SetPolicy of the tracker fails. Options.OnEnds receives each
// connection once, when it has ended, and no streams of HTTP/2, which only Stats of the listener counts.
//
// Closing the tracker ends the timeouts of its connections at once; after that, the
// listener accepts no more.
//
// Timeouts work below TLS. So the listener passed to Wrap may be one of
// crypto/tls, as for the server itself, but no other listener may wrap that. An example
// of a listener that is refused is netutil.LimitListener around tls.NewListener; put the
// LimitListener inside instead. A connection that brings its own TLS is refused when it is
// accepted, which ends Serve.
package httplimits
