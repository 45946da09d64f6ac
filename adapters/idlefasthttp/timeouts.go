package idlefasthttp

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
//	                    here          nginx  Kestrel       Envoy   Caddy
//	handshake           10 s          60 s   10 s          0       60 s
//	header, in all      10 s          60 s   30 s          0       60 s
//	body, progress      30 s          60 s   -             300 s   0
//	body, rate          240 B/s, 5 s  -      240 B/s, 5 s  -       0
//	response, progress  30 s          60 s   -             300 s   0
//	response, rate      240 B/s, 5 s  -      240 B/s, 5 s  -       -
//	keep-alive          75 s          75 s   130 s         3600 s  300 s
type Timeouts struct {
	// HandshakeTimeout is how long after a connection has been accepted the
	// first byte of its first request may take, a TLS handshake included. 10 s
	// by default: three round trips, some lost packets, and no more.
	HandshakeTimeout time.Duration

	// HeaderTimeout is how long after the first byte of a request its header
	// may take; bytes that trickle in do not extend it. 10 s by default: a
	// header is a packet or two.
	HeaderTimeout time.Duration

	// BodyTimeout is how long no byte of a body may arrive while one is waited
	// for; the time for which a handler does not read does not count. 30 s by
	// default: a train in a tunnel.
	BodyTimeout time.Duration

	// BodyRate is the least speed of a body, averaged over the time in which it
	// was waited for. 240 bytes a second after a grace of 5 s by default, which
	// is Kestrel's: less than any link has that a person would wait for.
	BodyRate idle.Rate

	// HandlerTimeout is how long a request may take from its handler's start,
	// or if it has a body from the end of its header, to the end of the
	// response. Off by default, as what handlers do is not the client's fault. A
	// request that takes longer is answered with 503 if no response has begun;
	// its handler is not stopped.
	HandlerTimeout time.Duration

	// WriteTimeout is how long no byte of a response may go out while some wait
	// to. 30 s by default. A slow client that takes a large file lives.
	WriteTimeout time.Duration

	// WriteRate is the least speed at which a response has to be taken, averaged
	// over the time in which it waited. By default as BodyRate.
	WriteRate idle.Rate

	// KeepAliveTimeout is how long a connection may wait for its next request.
	// 75 s by default, which is nginx's, and longer than the 60 s after which
	// most load balancers let a connection go by themselves.
	KeepAliveTimeout time.Duration

	// Hijacked is the policy of connections that were hijacked; none by
	// default: they are handed over. With KeepHijackedConns, one that is forgotten
	// is then closed by the garbage collector, as by the bare server. With a limit
	// it stays open until that is passed. See [Listener.Watch] for one with pings.
	Hijacked idle.Policy

	// OnTimeout is asked before a connection is timed out, on a goroutine of its
	// own. If it returns true, the connection is kept, and the limit begins
	// anew. err says which limit was passed, and its Phase is one of handshake,
	// request header, request, keep-alive and hijacked.
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
		KeepAlive: t.KeepAliveTimeout,
		Hijacked:  t.Hijacked,
		OnTimeout: t.OnTimeout,
		Idle:      t.Idle,
	}
}
