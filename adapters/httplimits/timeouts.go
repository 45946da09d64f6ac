package httplimits

import (
	"net"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// Off disables a limit: as the value of a duration, or as the BytesPerSecond of a rate.
const Off = -1

// Timeouts says how long a connection may take for what. In every field zero is the
// default and [Off] disables the limit; any other negative value is refused.
//
// Limits are kept as those of an [idle.Policy] are: never early, and late by about a
// tick, as it says there. The default values are made for the open Internet. Those of
// others, for comparison (0 is no limit, - no such setting; fasthttp has no limits by
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
	// HandshakeTimeout is how long bytes may be awaited in all, since the connection
	// was accepted, until the first byte of its first request is there, a TLS
	// handshake included. 10 s by default: three round trips, some lost packets, and
	// no more.
	//
	// net/http with TLS: the whole header of the first request has to come by then.
	//
	// HTTP/2: the client's preface has to come by then.
	HandshakeTimeout time.Duration

	// HeaderTimeout is how long bytes may be awaited in all from the first byte of a
	// request to the end of its header, whatever arrives. 10 s by default: a header is
	// a packet or two.
	//
	// HTTP/2: it is the limit of every header block, in however many frames it comes.
	// It ends the connection with all of its streams.
	HeaderTimeout time.Duration

	// BodyTimeout is how long no byte of a body may arrive while bytes are awaited;
	// the time in which a handler does not read does not count. 30 s by default: a
	// train in a tunnel. A handler that sets a read deadline of its own takes this and
	// BodyRate over for the rest of its request; with net/http a zero one does, too.
	//
	// HTTP/2: it counts, whether a handler reads or not, while the client may send (its
	// windows are open), has not ended the body, and the response has not begun. Once
	// it has, both sides may be silent for as long as they like, as in conversations
	// like those of gRPC; a handler that expects its client to be silent has to flush
	// the header of its response before. A client that waits for "100 Continue" cannot
	// be told from a silent one. The stream is reset, with the code CANCEL.
	BodyTimeout time.Duration

	// BodyRate is the minimum rate of a body, averaged over the time in which bytes
	// were awaited. 240 bytes a second after a grace of 5 s by default, as in Kestrel:
	// less than any link has that a person would wait for.
	BodyRate idle.Rate

	// HandlerTimeout is how long a request may take from the end of its header to the
	// end of the response. Neither traffic nor a busy server extends it. Off by default, as
	// what handlers do is not the client's fault. A request that takes longer is
	// answered with 503 if no response has begun. It is for HTTP/1 only.
	//
	// net/http: the request's context is cancelled.
	//
	// fasthttp: the handler is not stopped. Without a body the time counts from the
	// handler's start.
	HandlerTimeout time.Duration

	// WriteTimeout is how long no byte of a response may go out while bytes wait to.
	// 30 s by default. A slow client that takes a large file lives.
	//
	// HTTP/2: it counts for a stream while the window that the client has opened for
	// it is used up; the stream is reset. While the window of the connection is used
	// up it counts for all streams that have begun a response; all of them are reset.
	WriteTimeout time.Duration

	// WriteRate is the minimum rate at which a response has to be taken, averaged over
	// the time in which bytes waited to go out. By default as BodyRate.
	WriteRate idle.Rate

	// KeepAliveTimeout is how long a connection may wait for its next request. 75 s by
	// default, as in nginx, which is longer than the 60 s after which most load
	// balancers let a connection go by themselves.
	//
	// HTTP/2: it is how long a connection may be without an open stream, whatever
	// other frames come.
	KeepAliveTimeout time.Duration

	// StreamTimeout is how long no byte may move, in either direction, on a connection
	// of HTTP/2 while streams are open. 5 min by default, as in Envoy. It is for peers
	// that have vanished: a PING extends it.
	//
	// fasthttp: it is refused unless it is zero or Off, as there is no HTTP/2.
	StreamTimeout time.Duration

	// Hijacked is the policy of connections that were hijacked; none by default. A
	// hijacked connection without a limit that its handler forgets is closed by the
	// garbage collector, as by the bare server (of fasthttp: with KeepHijackedConns);
	// one with a limit stays open until that is passed. An active Heartbeat is
	// refused: use the adapter's Watch, which is also the way to ping WebSockets.
	Hijacked idle.Policy

	// OnTimeout is asked before a connection is timed out, on a goroutine of its own.
	// If it returns true, the connection is kept, and the limit begins anew. The
	// Setting of err is the name of a field here, or of idle.Policy for a hijacked
	// connection; its Phase is one of those that the package documentation lists.
	// OnTimeout is also asked before a stream of HTTP/2 is reset; c is the connection
	// of the stream then.
	OnTimeout func(c net.Conn, err *idle.TimeoutError) (keep bool)

	// Idle has the grain of the timeouts and more. If its Tick is 0, it is a 50th of
	// the shortest limit here, but 10 ms at least and 100 ms at most; a policy of
	// Watch that wants a finer one has 10 ms.
	Idle idle.Options
}

// Stats are the counts of a listener's connections. One that was hijacked and has no
// limit then counts as gone, unless Watch gives it one.
type Stats struct {
	idle.Stats

	// Phases is how many connections have timed out in each phase, by its name. That
	// of "request stream" is how many streams of HTTP/2 have been reset; their
	// connections may live on, and are not counted for it.
	Phases map[string]uint64

	// Limits is how many have timed out by each setting, by its name: those of
	// Timeouts, and for hijacked connections the fields of idle.Policy. It adds up to
	// what Phases does, streams included.
	Limits map[string]uint64
}
