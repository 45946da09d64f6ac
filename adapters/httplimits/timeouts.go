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
// The limits are as exact as those of an [idle.Policy]: never early, and late by
// about a tick. A tick is 10 ms, unless Idle says otherwise. The defaults suit servers on the open Internet. For comparison,
// here are those of others (0 is no limit, - is no such setting; fasthttp has no
// limits by default either):
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
	// HandshakeTimeout limits the time spent waiting for the client, from the
	// accept to the first byte of the first request. A TLS handshake is part of
	// that. The default is 10 s, enough for three round trips and some lost
	// packets.
	//
	// net/http with TLS: the whole header of the first request must arrive within
	// it.
	//
	// HTTP/2: the client's connection preface must arrive within it.
	HandshakeTimeout time.Duration

	// HeaderTimeout limits the time spent waiting for the client, from the first
	// byte of a request to the end of its header. Bytes that arrive do not extend
	// it. The default is 10 s: a header is a packet or two.
	//
	// HTTP/2: it limits every header block, however many frames that has. If it
	// passes, the connection is closed with all its streams.
	HeaderTimeout time.Duration

	// BodyTimeout limits how long the server waits for the next bytes of a body.
	// Time in which the handler does not read does not count. By default it is
	// 30 s. In HTTP/1, a handler that sets a read deadline disables this limit and
	// BodyRate for the rest of the request. In net/http a zero deadline does so
	// too.
	//
	// HTTP/2: it applies while the client may send (its windows are open), has
	// not ended the body, and the response has not begun. It does not matter
	// whether the handler reads. Once the response has begun both sides may be
	// silent for as long as they like, as in gRPC streams. So a handler that
	// expects the client to pause must flush the response's header first. A read
	// deadline does not change the limit. A
	// client that waits for "100 Continue" looks like a silent one. If the limit
	// passes, the stream is reset with the code CANCEL.
	BodyTimeout time.Duration

	// BodyRate is the minimum rate of a body, averaged over the time in which the
	// server waited for it. The default is 240 bytes a second after a grace of
	// 5 s, as in Kestrel. Any usable link is faster. A zero Grace stands for 5 s.
	//
	// With TLS, the bytes within the records count, without the records' headers and
	// authentication, but with the padding that TLS 1.3 allows. HTTP/2 counts bytes of
	// DATA, without padding.
	//
	// So the server waits for a body of n bytes for at most n/BytesPerSecond seconds and the
	// Grace. There is no other total limit for a body alone. HandlerTimeout and StreamTotal
	// include the body.
	BodyRate idle.Rate

	// HandlerTimeout limits the time from the end of a request's header to the
	// end of its response. Traffic does not extend it. It is off by default, as a
	// slow handler is not the client's fault. If it passes and no response has
	// begun, the request is answered with 503. It applies to HTTP/1 only.
	//
	// net/http: the request's context is cancelled if the body has been read to its end,
	// or there is none: net/http then reads ahead, and so notices. Otherwise the handler's
	// next read of the body fails, and its next write.
	//
	// fasthttp: the 503 is sent at once, but the handler is not stopped, and the
	// connection is closed when it returns. For a request without a body the time
	// counts from the start of the handler.
	HandlerTimeout time.Duration

	// WriteTimeout limits how long a response may wait to be sent without any
	// byte going out. The default is 30 s. A client that takes a large file
	// slowly but steadily does not exceed it.
	//
	// HTTP/2: it applies to a stream while the client's window for it is used up;
	// if it passes, the stream is reset. While the window of the connection is
	// used up, it applies to all streams whose response has begun; if it passes,
	// all of them are reset.
	WriteTimeout time.Duration

	// WriteRate is the minimum rate at which a response must be taken, averaged
	// over the time in which bytes waited to be sent. The default is that of
	// BodyRate.
	WriteRate idle.Rate

	// KeepAliveTimeout limits how long a connection waits for its next request.
	// The default is 75 s, as in nginx. Most load balancers close idle
	// connections after 60 s, so they do so first.
	//
	// HTTP/2: it limits how long a connection may have no open stream, whatever
	// other frames arrive. When it passes, the client gets a GOAWAY that still accepts
	// streams, and a PING. Once the client has answered, or after a second, it gets a
	// GOAWAY with the last stream, and the connection is closed. If the client opens a
	// stream meanwhile, the stream is served.
	KeepAliveTimeout time.Duration

	// StreamTimeout limits how long an HTTP/2 connection with open streams may be
	// silent in both directions. The default is 5 min, as in Envoy. It is for
	// peers that have vanished: a PING extends it.
	//
	// fasthttp: it must be zero or Off, because fasthttp does not speak HTTP/2.
	StreamTimeout time.Duration

	// StreamTotal limits how long a stream of HTTP/2 may be open, from the end of its
	// request's header. It is off by default. If it passes, the stream is reset, and the
	// handler's context is cancelled. If SetTimeouts switches it on, a stream that is open
	// has it from when its client is next waited for, or opens another stream.
	//
	// fasthttp: it must be zero or Off.
	StreamTotal time.Duration

	// Hijacked is the policy of hijacked connections. The zero Policy sets no
	// limit. Without a limit, a hijacked connection that its handler forgets is
	// closed by the garbage collector, as behind the bare server (for fasthttp:
	// with KeepHijackedConns). With a limit it stays open until that has passed.
	// An active Heartbeat is an error: use the adapter's Watch, which can also
	// ping WebSockets.
	Hijacked idle.Policy

	// OnTimeout, if not nil, is called before a connection is timed out, on a
	// goroutine of its own. If it returns true the connection is kept, and the
	// limit starts over. err.Setting is the name of a field of Timeouts or, for a
	// hijacked connection, of idle.Policy. err.Phase is one of the phases that
	// the package documentation lists. OnTimeout is also called before a stream
	// of HTTP/2 is reset; c is then the stream's connection.
	OnTimeout func(c net.Conn, err *idle.TimeoutError) (keep bool)

	// OnEnd, if not nil, is called once when a connection has timed out, or was ended by an
	// operation such as a Drain or an eviction, on a goroutine of its own. The request has
	// been answered if it could be. The connection's reads and writes fail when OnEnd has
	// returned, so it should be quick, and not write.
	OnEnd func(c net.Conn, err *idle.TimeoutError)

	// Idle has the options of the tracker, which SetTimeouts cannot change. If its Tick is 0, the tick is 10 ms,
	// or Idle.Budget if that is longer.
	Idle idle.Options
}

// Stats holds the counts of a listener's connections. A hijacked connection
// without limits counts as gone, unless Watch gives it some. Limits has the fields of
// Timeouts, whose names errors, ends and metrics have too. TimedOut and ByPhase have the
// reasons of package idle: KeepAliveTimeout of HTTP/1 is idle.ReasonRead.
type Stats struct {
	idle.Stats

	// Phases has the number of connections that timed out in each phase, by the
	// phase's name. For "request stream" it is the number of HTTP/2 streams that
	// were reset; their connections are not counted for that.
	Phases map[string]uint64

	// Limits has the number of connections that timed out by each setting, by its
	// name: a field of Timeouts or, for hijacked connections, of idle.Policy. Its
	// sum equals the sum of Phases. Streams of HTTP/2 are included.
	Limits map[string]uint64
}
