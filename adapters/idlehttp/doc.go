// Package idlehttp gives an http.Server all its timeouts from a timing wheel, for requests of HTTP/1 at less cost
// than the server's own.
//
//	err := idlehttp.Serve(&http.Server{Handler: h}, ln, idlehttp.Timeouts{})
//
// Each phase of a request has a limit of its own: handshake, header, body,
// handler, response, keep-alive wait. With the zero [Timeouts], slow clients can't hold a
// server. See go doc ./adapters/httplimits Timeouts.
//
// The server's own ReadTimeout, ReadHeaderTimeout, WriteTimeout and IdleTimeout must be 0.
//
// # Shutting down
//
// [Shutdown] asks the clients to leave at an even rate, hijacked connections included, and
// then shuts the server down.
//
// Shutdown and Close of the server itself work as usual. The timeouts go on meanwhile, so slow
// clients can't hold up a Shutdown. As without this package, the server's Shutdown closes all
// idle connections at once, and doesn't wait for hijacked ones, such as WebSockets.
//
// A drain waits for requests in progress. Event streams and long polls may go on for hours, and functions of
// http.Server.RegisterOnShutdown run only after the drain. So let their handlers watch a context that you cancel
// before Shutdown, as examples/recipes/sse does; in a gateway, cancel the context of the proxied request.
//
// # WebSockets
//
// A hijacked connection is under Timeouts.Hijacked, which has no limit by default.
// Close it in the end, even without limits, because the listener's tracker refers to it.
// [Watch] gives it limits and heartbeats of its own, once the WebSocket is accepted. The
// Ping function writes by the WebSocket's library, which flushes what it writes. OnDrain and
// OnEnd of [Callbacks] let a WebSocket say farewell.
//
// # Streams that are silent for long
//
// [KeepStream] writes a comment to a response whenever it has been silent for an interval.
// That keeps server-sent events and long polls open through proxies, and finds clients that
// have vanished, in HTTP/1 and HTTP/2. With BeginAs of [Comments] it also begins the response of a handler that thinks
// for long before its first byte. [SetLimits] gives a route limits of its own.
//
// # Gateways
//
// [Transport] limits what a gateway reads from its upstream: the time to the header of a response, and the silence
// and rate of its body.
//
// # What clients see
//
// A request whose header or body takes too long is answered with 408, unless its
// handler has answered it, and in HTTP/1 the connection is closed. A connection that waits for its next
// request for too long is closed silently. These timeouts aren't logged by the server.
//
// With TLS, the header of the first request counts as part of the handshake. It is limited
// by HandshakeTimeout, and is not answered. If the beginning of a header arrives together with
// the previous request, it has KeepAliveTimeout until more of it arrives.
//
// Handlers get a ResponseWriter of this package, which has all methods that net/http's
// has, such as Flush and, in HTTP/1, Hijack and ReadFrom.
//
// With EnableFullDuplex of [http.ResponseController], BodyTimeout and BodyRate apply until the handler has begun its
// response. After that, it may be conversing with the client.
//
// With HandlerTimeout, handlers run on goroutines of their own. Interim responses, such as 100 Continue and 103 Early
// Hints, don't begin the response.
//
// If a body exceeds its [http.MaxBytesReader], answer 413: the connection is then closed.
// With another status, the server reads up to 256 KiB of the rest before it answers.
//
// # HTTP/2
//
// In HTTP/2 the limits of a request count while its handler waits: in a read of the body (until something of the
// response has been sent), and in a write. If a client doesn't send the body, or doesn't read the response, that
// request fails, and the others of the connection go on. The fields of Timeouts say what each limit means for HTTP/2.
// So a slow handler, or silence after the response has begun, is limited only by HandlerTimeout, StreamTimeout and MaxAge.
//
// A body that the handler doesn't read has no limit. If a whole response fits into net/http's buffer of 4 kB, only
// net/http can send it, when the handler has returned. Every eighth such response of a busy connection is watched. If
// a client doesn't take it in time, the connection ends.
//
// x/net/http2/h2c would hijack connections, and its HTTP/2 would have no limits, so its Hijack fails.
// Use Server.Protocols instead (SetUnencryptedHTTP2).
//
// SendPingTimeout, PingTimeout and WriteByteTimeout of Server.HTTP2 may stay. They end the whole
// connection, in addition to the limits here.
package idlehttp
