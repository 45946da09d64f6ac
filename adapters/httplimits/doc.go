// Package httplimits has what idlehttp and idlefasthttp share: their [Timeouts], their
// [Stats], and how their listeners behave. Both name these types as their own, so a
// server imports its adapter only.
//
// # Phases
//
// A connection goes through phases. Each phase has limits of its own. An
// [idle.TimeoutError] says in which phase and by which setting a connection was
// ended; Stats counts both.
//
//	phase           lasts                                             settings
//	handshake       from the accept to the first byte of a request    HandshakeTimeout
//	request header  from there to the end of the header               HeaderTimeout
//	request         from there to the end of the response             BodyTimeout, BodyRate, HandlerTimeout
//	keep-alive      from there to the first byte of the next request  KeepAliveTimeout
//	streams         while streams of HTTP/2 are open                  StreamTimeout
//	request stream  a stream of HTTP/2, which is reset                BodyTimeout, BodyRate
//	hijacked        after a hijack                                    the fields of its idle.Policy
//
// WriteTimeout and WriteRate count in all phases but the last. A response of HTTP/1
// that is not taken is a timeout of the phase "request", whatever else the connection
// waits for.
//
// A stream can be reset only between two frames of its client. A frame that keeps the
// reset waiting for longer than a body may ends the connection, in the phase "streams",
// by BodyTimeout or BodyRate; without BodyRate by HeaderTimeout, if that is on.
//
// # Slow clients
//
// A body has two limits, and the rate is the shorter one at first. A client that sends
// nothing of its body is ended when the grace of BodyRate is over, after 5 s by default,
// and not by BodyTimeout after 30 s. Each byte that it sends buys it time: 240 bytes buy
// a second. BodyTimeout is for a pause after much has come, when so much time has been
// bought. To allow long pauses at the beginning of a body, make the grace of BodyRate
// longer, or switch the rate off:
//
//	BodyRate: idle.Rate{BytesPerSecond: httplimits.Off}
//
// A client that takes a response slowly lives, as long as it takes some. One that pauses
// has its receive window shut at some time, and is cut when that lasts for WriteTimeout.
// Some clients pause on purpose: curl --limit-rate with a large file does, as it lets
// the kernel receive much and then reads nothing for long. nginx cuts them in the same
// way (send_timeout). Servers of large files for such clients need a longer WriteTimeout.
//
// # Answers
//
// A header or a body of HTTP/1 that takes too long is answered with 408, and a handler
// that takes too long with 503, unless the response has begun. Then the connection is
// closed. OnTimeout is asked before, on a goroutine of its own. It may block, but should
// not write to the connection, as the answer is the adapter's.
//
// # Listeners
//
// NewListener of an adapter returns the listener on which the server is to be served.
// Closing it closes no connection: their timeouts go on until the last of them is gone,
// so that they hold while a server shuts down.
//
// Stats returns its counts. Its maps have an entry for each phase and each setting, be
// it zero. Tracker returns the [idle.Tracker] of its connections. Each connection is in a
// phase, whose policy is made from Timeouts; the tracker's own policy says nothing.
// Streams of HTTP/2 have another tracker, and so have connections that Watch put under
// limits too short for the listener's tick. Closing the tracker ends the timeouts of its
// connections at once, and the listener accepts no more.
//
// The listener that is passed to NewListener may be one of crypto/tls, as for the
// server itself, but TLS has to be outermost: timeouts work below TLS. A listener that
// wraps a TLS listener is refused, as its inside is out of reach. One example is
// netutil.LimitListener around tls.NewListener; put the LimitListener inside instead. A
// connection that brings TLS of its own is refused when it is accepted, which ends Serve.
package httplimits
