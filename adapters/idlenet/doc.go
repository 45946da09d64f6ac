// Package idlenet gives the connections of a net.Listener the timeouts of an [idle.Policy]: idle, read, write, phase,
// age, heartbeat and minimum rate.
//
//	ln, err := net.Listen("tcp", ":9000")
//	...
//	ln, err = idlenet.Wrap(ln, idle.Policy{IdleTimeout: time.Minute}, nil)
//
// The server's code stays as it is. [Wrap] returns a [*Listener], whose Accept returns
// connections of type [*Conn]. [Options] has callbacks, [Listener.Stats] returns the counts, and
// [Listener.Phase] makes phases. [WrapConn] gives timeouts to a single connection, such as a
// client's.
//
// When a connection passes a limit, it's closed, and its pending and later reads and writes fail
// with an error that says so:
//
//	var timeout *idle.TimeoutError
//	if errors.As(err, &timeout) { ... timeout.Setting ... }
//
// Close it anyway: that returns nil and releases its resources.
//
// # Phases
//
// A connection whose limits change, after a handshake for example, enters a phase:
//
//	phase, err := l.Phase(idle.Policy{IdleTimeout: time.Hour})
//	...
//	idlenet.Unwrap(conn).Enter(phase)
//
// A phase is cheap, so each client can have its own, such as one for the keepalive that it has
// negotiated. A limit that is shorter than the tick is refused. If clients may ask for short ones, set
// Options.Idle.Tick, because the default suits the policy of Wrap only.
//
// # TLS
//
// TLS goes on top, and [Unwrap] finds the Conn below it:
//
//	l, err := idlenet.Wrap(ln, policy, nil)
//	...
//	phase, err := l.Phase(policyAfterHandshake)
//	...
//	conn, err := tls.NewListener(l, config).Accept() // a *tls.Conn
//	...
//	idlenet.Unwrap(conn).Enter(phase)
//
// # The PROXY protocol
//
// A library for the PROXY protocol goes below, and TLS on top:
//
//	ln, err = idlenet.Wrap(&proxyproto.Listener{Listener: ln}, policy, nil)
//	...
//	ln = tls.NewListener(ln, config)
//
// RemoteAddr of its connections waits for the PROXY header. Accept doesn't. IdleTimeout and PhaseTimeout (in HTTP,
// HandshakeTimeout) include that wait. After its ReadHeaderTimeout go-proxyproto goes on without a header, with the
// balancer's address, unless its policy is REQUIRE. Accept headers only from the balancer's addresses, or clients
// choose their own. A gate of adapters/admit goes on top of the library, and counts a client at its first Read.
//
// To ask the kernel whether bytes have moved (see What counts), idlenet needs the socket inside. It
// calls the method NetConn or, as with pires/go-proxyproto, Raw. If a library has neither, put a
// listener in between whose connections have NetConn.
//
// # The socket
//
// A Conn isn't a *net.TCPConn, so a type assertion to that fails. Conn has its methods, such as
// SetNoDelay, CloseWrite and ReadFrom, and io.Copy to a Conn still uses sendfile and splice. Assert
// an interface with the method that you need:
//
//	if c, ok := conn.(interface{ SetNoDelay(bool) error }); ok { ... }
//
// For SyscallConn and socket options, take the socket. Reads and writes on it don't count:
//
//	tcp, ok := idlenet.Unwrap(conn).NetConn().(*net.TCPConn)
//
// Connections of the HTTP adapters aren't Conns, but they have these methods too, and NetConn.
//
// # Callbacks
//
// The callbacks of Options may write to their connection, and may block: each call has its own
// goroutine. A Write isn't split by writes of other goroutines, and Conn has no buffer that
// would need a flush. Three kinds of servers need more care:
//
//   - Servers that copy to the connection, such as with io.Copy or http.ServeContent. A copy
//     is many writes, and a callback may write between two of them. Use callbacks that write
//     only if the protocol allows that.
//   - Servers that write with a bufio.Writer. A write to the Conn overtakes what is in the
//     buffer, and may split a message. The callback has to write to the bufio.Writer, under
//     the lock that the server's own writes take, and flush it.
//   - Servers with TLS. The Conn is below TLS, so a write to it would break the stream. The callback has to write to
//     the *tls.Conn. The server can keep it in a sync.Map, with the Conn that Unwrap finds as its key, until it
//     closes the connection. After a farewell call CloseWrite of the *tls.Conn, or the client sees an unexpected EOF.
//     TestTLSPings of package idletest is such a server.
//
// Write a farewell in OnEnd. After OnTimeout, the connection may live on. A write in OnTimeout
// needs a write deadline, because no timeout ends it. One in OnEnd fails a second
// after OnEnd began. A Ping may block because the peer doesn't read: misses are counted meanwhile.
//
// Callbacks of different connections run at the same time. Ping, OnDrain and OnTimeout of one
// connection may also run at the same time, but OnEnd comes after OnTimeout. After Close of the
// connection has returned, no callback begins, though one that has begun may still be running.
//
// # Clients
//
// [WrapConn] gives a client's connection timeouts. [idle.New] makes the tracker, which all
// connections share. [Unwrap] returns the *Conn.
//
// In a pool, a connection enters a phase with an IdleTimeout when it's put back, and another
// phase when it's taken out. A connection that times out in the pool is closed, but still in
// the pool. So when you take one out, enter the phase first, and then check that [Conn.Timeout]
// returns nil. The peer may have closed the connection all the same, so be ready to try
// another one.
//
// Drain and Capacity are made for servers. A pooled connection looks busy to them,
// because nobody reads from it, and one that awaits a response looks idle. So set
// Policy.NoInterrupt for connections in use. To empty the pool, give the phase of the others a
// short IdleTimeout with [idle.Phase.SetPolicy].
//
// # Proxies
//
// A proxy wraps both connections of a pair, the client's by Wrap and the server's by
// WrapConn. When a copy ends without an error, it calls CloseWrite of its destination, and
// the other copy goes on. When one fails, the proxy closes both connections.
//
// A byte that the proxy copies is an activity of both connections, so they are idle for equally
// long. An IdleTimeout on one of them is enough. WriteTimeout is needed on both: it finds the
// side that doesn't read. Leave ReadTimeout off. A proxy always reads from both sides, so it
// would end a long download, in which one side is silent.
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
// A connection isn't ended while its server works, which means while no Read of it waits.
//
// To end all connections at once instead, close the listener and its tracker. Close of the
// [Listener] alone closes no connection. They keep their timeouts, and the tracker ends with
// the last of them. [idle.Tracker.Close] returns the *Conns that were live. They are still
// open, without timeouts:
//
//	l.Close()
//	live, err := l.Tracker().Close()
//	for _, c := range live {
//		c.(*idlenet.Conn).Close()
//	}
//
// A connection that you forget to close stays open until it times out, because the tracker
// refers to it.
//
// # Goroutines
//
// [idle.Policy] and [Options] are plain values, and are copied. So you can change and use them
// again afterwards. The methods of Listener and Conn, and of the tracker and its phases, may be
// called by any goroutine at any time, callbacks included. [idle.Tracker.Close] waits for
// callbacks, so it should not be called in one.
//
// # What counts
//
// The calls of Read, Write, ReadFrom and WriteTo count. ReadTimeout and MinReadRate
// count while a Read waits. Time in which the server is busy with a request and doesn't read
// isn't held against the client. To limit silence whatever the server does, use IdleTimeout.
// (Package net/http reads in the background while a handler runs, so use idlehttp.) WriteTimeout and MinWriteRate
// count in the same way while a Write waits.
//
// A Read or Write that fails at a deadline of the server's own still counts as waiting: ReadTimeout or WriteTimeout,
// and the minimum rates, count until the next one that succeeds, even if the server doesn't try again. So a server
// that polls with short deadlines ends a silent client too. If it gives up and does something else for long, it
// should enter a phase without these limits.
//
// Every byte is use of the connection, pings included. Idleness counts from the last use: for IdleTimeout, for evictions
// and for drains. With [idle.Policy].ExplicitUse only [Conn.Use] is use.
//
// WriteTimeout ends a client that stops reading, even if it wants to go on later. On Linux the limit begins to count
// when the client's receive window and the kernel's send buffer are full.
//
// Before a connection times out, the kernel is asked whether bytes have moved unnoticed (on Linux, with TCP_INFO).
// Input may be unread after a stall of the process, or a slow client may still be reading a large write. For Unix
// sockets the kernel reports only how much is queued. If bytes have left since the write began to wait, or since the
// last check, the client has read, and the limit starts over. MinWriteRate gives such a peer a credit of 16 kB. On systems
// other than Linux, the kernel is only asked for unread input.
package idlenet
