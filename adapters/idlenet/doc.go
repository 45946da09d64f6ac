// Package idlenet gives the connections of a net.Listener their timeouts: idle,
// read, write, age, heartbeat and minimum rate, as an [idle.Policy] says.
//
//	ln, err := net.Listen("tcp", ":9000")
//	...
//	ln, err = idlenet.Wrap(ln, idle.Policy{IdleTimeout: time.Minute}, nil)
//
// The server's code stays as it is. [Wrap] returns a [*Listener], whose Accept returns
// connections of type [*Conn]. [Options] has callbacks, [Listener.Stats] the counts, and
// [Listener.Phase] makes phases. [WrapConn] gives timeouts to a single connection, such as a client's.
//
// When a connection passes a limit, its pending and later reads and writes fail at
// once with an error that says so:
//
//	var timeout *idle.TimeoutError
//	if errors.As(err, &timeout) { ... timeout.Setting ... }
//
// If nobody has closed the connection [idle.Options].ReapDelay later, it is closed.
//
// # Phases
//
// A connection whose limits change, after a handshake for example, enters a phase. The
// tracker of the [*Listener] l makes it:
//
//	phase, err := l.Phase(idle.Policy{IdleTimeout: time.Hour})
//	...
//	idlenet.Unwrap(conn).Enter(phase)
//
// A phase is cheap, so each client can have its own, for a keepalive that it has
// negotiated for example.
//
// # TLS
//
// TLS goes on top, and [Unwrap] finds the Conn below it:
//
//	ln, err = idlenet.Wrap(ln, policy, nil)
//	...
//	ln = tls.NewListener(ln, config)
//	conn, err := ln.Accept() // a *tls.Conn
//	...
//	idlenet.Unwrap(conn).Enter(phase)
//
// # Callbacks
//
// The callbacks of Options may write to the connection that they get, and may block:
// each call has a goroutine of its own. A Write goes out whole, though other goroutines
// write to the same connection, and Conn holds nothing back, so there is nothing to
// flush. Three kinds of servers have to do more:
//
//   - One that copies to the connection, by io.Copy or http.ServeContent for example. A
//     copy is many writes, and that of a callback may come between two of them. Such a
//     server uses a callback only if its protocol allows that.
//   - One that writes by a bufio.Writer. What a callback writes to the Conn overtakes
//     what is in the buffer, and may split a message. Such a callback writes to the
//     bufio.Writer, under the lock that the server's own writes take, and flushes it.
//   - One with TLS. The Conn is below TLS, so what a callback writes to it would break
//     the stream. Such a callback writes to the *tls.Conn, which the server can keep in a
//     sync.Map from the Conn, as From finds it.
//
// A farewell belongs in OnEnd: after OnTimeout the connection may still live. What the
// two write wants a write deadline, as no timeout ends it. A Ping that blocks, because the
// peer takes nothing, does no harm: the peer's misses count on.
//
// Callbacks of different connections run at the same time. Of one connection Ping,
// OnDrain and OnTimeout may too, but OnEnd comes after OnTimeout. No callback begins
// after Close of the connection has returned, though one that has begun may still be
// running.
//
// # Clients
//
// [WrapConn] gives a client's connection timeouts, by a tracker that [idle.New] makes and
// all connections share. [Unwrap] returns the *Conn in what it returns. In a pool, a connection enters a phase with an IdleTimeout when
// it is put back, and another one when it is taken out. A connection that has timed out
// in the pool is closed, but the pool may still refer to it. So the one who takes it out
// enters the phase first, and then asks [Conn.Timeout] whether it is any good. That does
// not tell whether the peer has closed the connection, so be ready to try another one.
//
// Drain, Shed and Capacity are made for servers. A connection in a pool is busy to them, as
// nobody reads from it, and one that waits for a response is not. So let the policy of those
// in use be Busy. To empty the pool, give the policy of those that rest a short IdleTimeout
// by [idle.Phase.SetPolicy]: each is closed when it has rested for so long.
//
// # Proxies
//
// A proxy wraps both connections of a pair, the client's by Wrap and the server's by
// WrapConn. When a copy ends without an error, it calls CloseWrite of its destination, and
// the other copy goes on. When one fails, the proxy closes both. A byte that it copies is read from
// one side and written to the other, so it is an activity of both, and both have been
// idle for equally long. Therefore the shorter of two idle limits is that of the pair,
// and one of the two is enough. WriteTimeout is different: it tells that this side takes
// nothing, while the other one may send. A proxy always reads from both sides, so
// ReadTimeout is not for it: it would end a long download, in which one side is silent.
//
// A copy whose source times out fails at once. If the destination times out while a copy
// waits for its source, the copy notices that only when the source sends or is closed. So
// close both as soon as one fails.
//
// # Shutting down
//
// To end connections at an even rate, after telling their clients by Options.OnDrain,
// close the listener and call Drain of its tracker:
//
//	l.Close()
//	drain, err := l.Tracker().Drain(idle.Drain{Duration: time.Minute, ForceAfter: 2 * time.Minute})
//	...
//	<-drain.Done()
//
// A connection is not ended while its server works, that is while no Read of it waits.
// What follows is how to do without.
//
// Close of the [Listener] closes no connection: they keep their timeouts, and the
// listener's tracker ends with the last of them. To end them all, close the tracker,
// and then what [idle.Tracker.Close] hands back: the *Conns that were live. They are
// open, but have no timeouts any more:
//
//	l.Close()
//	live, err := l.Tracker().Close()
//	for _, c := range live {
//		c.(*idlenet.Conn).Close()
//	}
//
// A tracker refers to its connections, so one that is forgotten without a Close
// stays open until it times out.
//
// # Goroutines
//
// [idle.Policy] and [Options] are plain values. What takes one copies it,
// so they can be changed and used again afterwards. The methods of
// Listener and Conn, and of the tracker and its phases, may be called by any goroutine
// at any time, callbacks included. [idle.Tracker.Close] waits for callbacks, so it
// should not be called in one.
//
// # What counts
//
// Read, Write, ReadFrom and WriteTo are what is seen of a connection. ReadTimeout,
// ReadTotal and MinReadRate count while a Read waits. So a server that is busy with a
// request, and does not read meanwhile, does not hold that against the client; to limit
// silence whatever the server does, use IdleTimeout. (Package net/http reads in the
// background while a handler runs: use idlehttp.) A Read that gets nothing until the
// server's own deadline, and is tried again, goes on as the same wait: the time of both
// counts, and the time between them does not, unless that is longer than the limit.
// WriteTimeout and MinWriteRate count in the same way while a Write waits.
//
// A client that stops reading is cut by WriteTimeout, even if it means to go on later. The
// limit begins to count when the client's receive window is full.
//
// Before a connection is timed out the kernel is asked (on Linux, by TCP_INFO) whether
// bytes have moved unseen: input may be unread after a stall of the process, or a slow
// client may still drain a large write. On Unix sockets the kernel tells how much is
// queued, which is compared with what it was when the write began to wait, or at the
// last look. A client that takes nothing is timed out in time; one that has taken
// something since may be given the limit once more. On other systems than Linux only
// unread input is asked for.
package idlenet
