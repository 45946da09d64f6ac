package httplimits

import (
	"net"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// Off disables a limit. It is a value for durations, and for BytesPerSecond of a
// rate.
const Off = -1

// Timeouts sets the limits of each phase of a connection. In every field, zero
// means the default and [Off] disables the limit. Any other negative value is an
// error.
//
// As with an [idle.Policy], a timeout is never early, and late by about a tick. A
// tick is 10 ms, unless Idle sets another one. The defaults suit servers on the
// open Internet. This table compares them with the defaults of other servers (0
// means no limit, - means that there's no such setting; fasthttp has no limits by
// default either):
//
//	                    here          net/http  nginx  Kestrel       Envoy   Caddy
//	handshake           10 s          0         60 s   10 s          0       60 s
//	header, in all      10 s          0         60 s   30 s          0       60 s
//	body, progress      30 s          0         60 s   -             300 s   0
//	body, rate          240 B/s, 5 s  -         -      240 B/s, 5 s  -       0
//	response, progress  30 s          0         60 s   -             300 s   0
//	response, rate      240 B/s, 5 s  -         -      240 B/s, 5 s  -       -
//	keep-alive          75 s          0         75 s   130 s         3600 s  300 s
//	HTTP/2 streams      300 s         0         -      -             300 s   -
type Timeouts struct {
	// HandshakeTimeout limits the time from the accept to
	// the first byte of the first request, whatever the server does meanwhile. It includes a TLS handshake. The default
	// is 10 s, which is enough for three round trips and some lost packets.
	//
	// net/http with TLS: it includes the whole header of the first request.
	//
	// HTTP/2: it includes the client's connection preface and lasts to the end of the first request's header. In
	// idlehttp without TLS, HeaderTimeout limits the preface, and then HandshakeTimeout begins again.
	HandshakeTimeout time.Duration

	// HeaderTimeout limits the time between
	// the first byte of a request and the end of its header. Bytes that arrive don't
	// extend it, and pauses of the server don't either. If a part is unread when it passes, the server has
	// five ticks to read and report it. The default is 10 s, because a header is only a packet or two.
	//
	// HTTP/2: it has no effect. A header block that isn't complete is nothing yet, so
	// KeepAliveTimeout goes on, or StreamTimeout if there are streams.
	HeaderTimeout time.Duration

	// BodyTimeout limits how long the server waits for the next bytes of a body.
	// Time in which the handler doesn't read doesn't count. The default is 30 s.
	//
	// If the handler sets a read deadline, this limit and BodyRate are off
	// for the rest of the request. In net/http, a zero deadline counts as one.
	//
	// HTTP/1: after EnableFullDuplex it applies until the handler has begun its response.
	//
	// HTTP/2: it applies until something of the response has been sent. Then only StreamTimeout limits silence, as in
	// gRPC streams. So if a handler expects the client to pause, it must flush the response's header first. The limit
	// starts over if the connection has meanwhile received as many bytes as BodyRate, or its default, demands, or if
	// other handlers' unread bodies may have closed the connection's window. When it passes, the handler's read
	// fails, and other requests go on.
	BodyTimeout time.Duration

	// BodyRate is the minimum rate of a body, averaged over the time that the server
	// waits for it. The default is 240 bytes per second after a grace of 5 s, as in
	// Kestrel. Any usable link is faster. A zero Grace means 5 s.
	//
	// So for a body of n bytes, the server waits at most n/BytesPerSecond seconds
	// plus the Grace and an eighth of it. There is no other limit on a whole body, except that
	// HandlerTimeout includes it.
	//
	// All bytes that arrive on the connection while a handler waits for a body count for that one, also
	// the framing of TLS, chunks and HTTP/2.
	BodyRate idle.Rate

	// HandlerTimeout limits the time from the end of a request's header to the
	// end of its response. Traffic doesn't extend it. It is
	// off by default, because a slow handler isn't the client's fault. When it passes
	// and the handler has answered nothing, the request is answered with 503. Otherwise the
	// connection ends, in HTTP/2 the stream is reset.
	//
	// Each handler then runs on a goroutine of its own, as with [net/http.TimeoutHandler] and fasthttp's. It may
	// go on after the 503, but what it writes fails (fasthttp: is ignored). With net/http, its context is cancelled.
	//
	// With a HandlerTimeout only of [RequestLimits], there's no such goroutine. In HTTP/1 its 503 is sent only if the
	// handler returns within a second, and in HTTP/2 the stream is reset.
	HandlerTimeout time.Duration

	// WriteTimeout limits the time without progress while a response waits to be
	// sent. The default is 30 s. A client that reads a large file slowly but steadily
	// doesn't exceed it.
	//
	// HTTP/2: it limits how long a write of the handler may wait. Every 16 kB that get through are progress. A client
	// shows that it reads by opening its window. So a steady reader must take half its window, and at least 16 kB, in
	// this time. The limit starts over if the client has meanwhile taken as much from the connection as WriteRate, or
	// its default, demands. When it passes, the stream is reset.
	WriteTimeout time.Duration

	// WriteRate is the minimum rate at which the client must read a response,
	// averaged over the time in which bytes wait to be sent. It has the same default as
	// BodyRate.
	WriteRate idle.Rate

	// KeepAliveTimeout limits how long a connection waits for its next request. The default is 75 s, as in nginx. It
	// must be longer than a load balancer keeps idle connections, or clients get 502s: AWS ALB and nginx 60 s, but
	// Traefik, Caddy, GCP and Envoy longer (docs/operations.md has a list). If you raise the balancer's, raise this,
	// too.
	//
	// HTTP/2: it limits how long a connection may have no open stream, whatever
	// other frames arrive. It starts over while the client is still receiving a response that
	// the kernel has accepted (Linux). When it passes, the client gets a GOAWAY, and the connection
	// is closed. A request that crosses the GOAWAY isn't executed.
	KeepAliveTimeout time.Duration

	// StreamTimeout limits how long an HTTP/2 connection with open streams may be
	// silent in both directions. The default is 5 min, as in Envoy. It finds clients
	// that have vanished, so a PING extends it.
	//
	// fasthttp: it must be zero or Off, because fasthttp does not speak HTTP/2.
	StreamTimeout time.Duration

	// MaxAge limits the age of a connection, from its accept. It is off by default. When it has passed,
	// the next response asks the client to close the connection, in HTTP/2 by a GOAWAY. It's for balancers that see new servers
	// only when they connect again, and for certificates and routes that change. A response that has begun can't ask any more.
	MaxAge time.Duration

	// MaxAgeJitter makes MaxAge of each connection longer, by up to this time, so that those that were accepted together
	// don't leave together. The default is 0.
	MaxAgeJitter time.Duration

	// MaxAgeGrace is the time after MaxAge in which the client may finish. Then the connection is ended, also within a
	// request. The default is 30 s. With Off it's ended as soon as MaxAge has passed, without being asked.
	MaxAgeGrace time.Duration

	// Hijacked is the policy of hijacked connections. The zero Policy sets no
	// limit. An [idle.Capacity] counts them, and evicts one that waits for input unless
	// NoInterrupt is set. An active Heartbeat is an error: use the adapter's Watch, which can
	// also ping WebSockets.
	Hijacked idle.Policy

	// OnTimeout, if not nil, is called before a connection times out, on a goroutine of its own. If it returns true,
	// the connection is kept and the limit starts over. err.Setting is the name of a field of Timeouts, or of
	// idle.Policy if the connection is hijacked. err.Phase is one of the phases that the package documentation lists,
	// or the Name of a policy of Hijacked or Watch. OnTimeout is also called before an HTTP/2 stream is reset. c is
	// then the stream's connection. It isn't called for MaxAge of a hijacked connection.
	OnTimeout func(c net.Conn, err *idle.TimeoutError) (keep bool)

	// OnEnd, if not nil, is called once when a connection has timed out, or was ended
	// in another way, such as by a Drain or an eviction. It runs on a goroutine of its
	// own, after the request was answered, for which the server has a second. The
	// connection is closed when OnEnd has returned, or a second
	// after it began, so it should be quick. It should not write.
	OnEnd func(c net.Conn, err *idle.TimeoutError)

	// Idle has the options of the tracker, which SetTimeouts cannot change. If its
	// Tick is 0, the tick is 10 ms, or Idle.Budget if that is longer.
	Idle idle.Options
}

// Stats holds the counts of a listener's connections, hijacked ones included. Limits counts by the
// fields of Timeouts, whose names errors, end records and metrics use too. TimedOut and
// ByPhase count by the reasons of package idle: KeepAliveTimeout is
// idle.ReasonPhase.
type Stats struct {
	idle.Stats

	// Phases has the number of connections that timed out in each phase, by the
	// phase's name; hijacked ones all count as "hijacked". For "request stream" it is the number of HTTP/2 requests that a
	// limit made fail; their connections are not counted for that.
	Phases map[string]uint64

	// Limits has the number of connections that timed out by each setting, by its
	// name: a field of Timeouts or, for hijacked connections, of idle.Policy. Its
	// sum equals the sum of Phases. Streams of HTTP/2 are included.
	Limits map[string]uint64
}
