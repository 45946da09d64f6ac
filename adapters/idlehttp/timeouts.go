package idlehttp

import (
	"net"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpconn"
	"github.com/idlewheel/idlewheel/idle"
)

// Off disables a timeout, or as its BytesPerSecond a rate.
const Off = -1

// Timeouts says how long a connection may take for what. The zero value is the
// defaults; [Off] disables a limit, and any other negative value is refused.
// Limits are kept as those of an [idle.Policy] are: never early, and late by about
// a tick, as it says there.
//
// What others do by default, for comparison (0 is no limit, - that there is no
// such setting):
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
	// HandshakeTimeout is how long after a connection has been accepted the
	// first byte of its first request may take, a TLS handshake included. With
	// TLS, net/http does not tell when the handshake is over, so that there the
	// whole header of the first request has to come by then. In HTTP/2 it is the
	// client's preface that has to. 10 s by default: three round trips, some lost
	// packets, and no more.
	HandshakeTimeout time.Duration

	// HeaderTimeout is how long after the first byte of a request its header
	// may take; bytes that trickle in do not extend it. 10 s by default: a
	// header is a packet or two. In HTTP/2 it is the limit of every header block,
	// in however many frames it comes; the connection is ended by it, with all of
	// its streams.
	HeaderTimeout time.Duration

	// BodyTimeout is how long no byte of a body may arrive while a handler reads
	// one; the time for which it does not read does not count. 30 s by default:
	// a train in a tunnel. A handler that sets a read deadline of its own
	// (http.ResponseController), or none by setting a zero one, takes this and
	// BodyRate over for the rest of its request.
	//
	// In HTTP/2 it counts, whether a handler reads or not, while the client may
	// send (its windows are open), has not ended the body, and the response has
	// not begun. Both sides may be silent for as long as they like once it has,
	// as they are in conversations like those of gRPC: a handler that expects
	// its client to be silent has to flush the header of its response before.
	// That a client waits for "100 Continue" cannot be seen, so it has this time
	// in all. The stream is reset, with the code CANCEL.
	BodyTimeout time.Duration

	// BodyRate is the least speed of a body, averaged over the time in which it
	// was read. 240 bytes a second after a grace of 5 s by default, which is
	// Kestrel's: less than any link has that a person would wait for.
	BodyRate idle.Rate

	// HandlerTimeout is how long a request may take from the end of its header
	// to the end of the response. Off by default, as what handlers do is not the
	// client's fault. A request that takes longer is answered with 503 if no
	// response has begun, and its context is cancelled. It is for HTTP/1 only.
	HandlerTimeout time.Duration

	// WriteTimeout is how long no byte of a response may go out while some wait
	// to. 30 s by default. A slow client that takes a large file lives. In HTTP/2
	// it counts for a stream while the window that the client has opened for it is
	// used up, and the stream is reset. While the window of the connection is, it
	// counts for all streams that have begun a response, which then are reset.
	WriteTimeout time.Duration

	// WriteRate is the least speed at which a response has to be taken, averaged
	// over the time in which it waited. By default as BodyRate.
	WriteRate idle.Rate

	// KeepAliveTimeout is how long a connection may wait for its next request.
	// 75 s by default, which is nginx's, and longer than the 60 s after which most
	// load balancers let a connection go by themselves. In HTTP/2 it is how long a
	// connection may be without an open stream, whatever other frames come.
	KeepAliveTimeout time.Duration

	// StreamTimeout is, in HTTP/2, how long no byte may move on a connection, in
	// either direction, while streams are open. 5 min by default, which is
	// Envoy's. It is for peers that have vanished: a PING extends it.
	StreamTimeout time.Duration

	// Hijacked is the policy of connections that were hijacked; none by
	// default: they are handed over, and one that its handler forgets is closed
	// by the garbage collector, as by the bare server. With a limit it stays open
	// until that is passed. See [Watch] for WebSockets.
	Hijacked idle.Policy

	// OnTimeout is asked before a connection is timed out, on a goroutine of its
	// own. If it returns true, the connection is kept, and the limit begins
	// anew. err says which limit was passed, and its Phase is one of handshake,
	// request header, request, keep-alive, streams and hijacked. It is also asked
	// before a stream of HTTP/2 is reset: the Phase is "request stream" then, and
	// c the connection of the stream.
	OnTimeout func(c net.Conn, err *idle.TimeoutError) (keep bool)

	// Idle has the grain of the timeouts and more. If its Tick is 0, it is a 50th
	// of the shortest limit here, but 10 ms at least and 100 ms at most; a policy
	// of Watch that wants a finer one has 10 ms.
	Idle idle.Options
}

func (t *Timeouts) limits() httpconn.Limits {
	return httpconn.Limits{
		Handshake: t.HandshakeTimeout, Header: t.HeaderTimeout,
		Body: t.BodyTimeout, BodyRate: t.BodyRate,
		Handler: t.HandlerTimeout,
		Write:   t.WriteTimeout, WriteRate: t.WriteRate,
		KeepAlive: t.KeepAliveTimeout, Stream: t.StreamTimeout,
		Hijacked:  t.Hijacked,
		OnTimeout: t.OnTimeout,
		Idle:      t.Idle,
	}
}
