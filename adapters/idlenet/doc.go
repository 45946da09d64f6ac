// Package idlenet gives the connections of a net.Listener their timeouts: idle,
// read, write, age, heartbeat and minimum rate, as an [idle.Policy] says.
//
//	ln, err := net.Listen("tcp", ":9000")
//	...
//	ln, err = idlenet.Wrap(ln, idle.Policy{IdleTimeout: time.Minute}, nil)
//
// The server's code stays as it is. [Wrap] returns a [*Listener], of which Accept
// returns connections of type [*Conn]. [Options] has callbacks for servers that want a
// say, [Listener.Tracker] the counts and more. [WrapConn] is for a single connection.
//
// When a connection passes a limit, its pending and later reads and writes fail at
// once with an error that says so (a copy that waits for its other side fails when
// that has moved):
//
//	var timeout *idle.TimeoutError
//	if errors.As(err, &timeout) { ... timeout.Reason ... }
//
// and if nobody has closed it [idle.Options].Linger later, it is closed.
//
// # TLS
//
// TLS goes on top, and [From] finds the Conn below it:
//
//	ln, err = idlenet.Wrap(ln, policy, nil)
//	...
//	ln = tls.NewListener(ln, config)
//	conn, err := ln.Accept() // a *tls.Conn
//	...
//	idlenet.From(conn).Enter(phase)
//
// # Phases
//
// A connection whose limits change, after a handshake for example, enters a phase, which
// the tracker of the [*Listener] l makes:
//
//	phase, err := l.Tracker().Phase(idle.Policy{IdleTimeout: time.Hour})
//	...
//	conn.(*idlenet.Conn).Enter(phase)
//
// # Shutting down
//
// Close of the [Listener] closes no connection: they keep their timeouts, and the
// listener's tracker ends with the last of them. To end them all, close its tracker
// first. What [idle.Tracker.Close] hands back are the *Conns, open still, but without
// timeouts from then on:
//
//	live, err := l.Tracker().Close()
//	l.Close()
//	for _, c := range live {
//		c.(*idlenet.Conn).Close()
//	}
//
// A tracker refers to its connections, so one that is forgotten without a Close
// stays open until it times out; see [Conn.Untrack] for one that is to have no
// timeouts any more.
//
// # Goroutines
//
// [idle.Policy] and [Options] are plain values. What takes one copies it, except
// [Conn.Init], so they can be changed and used again afterwards. The methods of
// Listener and Conn, and of the tracker and its phases, may be called by any goroutine
// at any time, callbacks included; only [idle.Tracker.Close] waits for callbacks, and
// so fails in one.
//
// Each callback of Options has a goroutine of its own and may block. Those of
// different connections run at the same time. Of one connection Ping, OnDrain and
// OnTimeout may too, but OnEnd comes after OnTimeout. None begins after Close of the
// connection has returned, though one that has begun may still be running.
//
// # What counts
//
// What moves a connection's deadlines is seen in its Read, Write, ReadFrom and
// WriteTo. ReadTimeout and MinReadRate count while a Read waits, so a server
// that is busy with a request, and does not read meanwhile, does not hold that
// against the client; to limit silence whatever the server does, use
// IdleTimeout. (Package net/http reads in the background while a handler runs:
// use idlehttp.) A Read that gets nothing until the server's own deadline, and is
// tried again, goes on as the same wait: the time of both counts, and not the time
// between them, unless that is longer than the limit. WriteTimeout and MinWriteRate
// count in the same way while a Write waits.
//
// Before a connection is timed out the kernel is asked (on Linux, TCP_INFO) whether
// bytes have moved unseen: unread input after a stall of the process, or a slow
// client that still drains a large write. On Unix sockets it tells how much is
// queued, which is compared with what was when the write began to wait, or when it
// was last asked: a client that takes nothing is timed out in time, and one that has
// taken something since may be given the limit once more. Elsewhere than on Linux
// only unread input is asked for.
package idlenet
