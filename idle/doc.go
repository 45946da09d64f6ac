// Package idle times out stale connections: those that are idle, slow, too old, or don't
// answer heartbeats, and those whose peer doesn't send or doesn't read.
//
// A server uses this package through an adapter: adapters/idlenet for a net.Listener or a
// net.Conn, adapters/idlegnet for gnet, adapters/idlehttp for net/http, adapters/idlefasthttp
// for fasthttp. The HTTP adapters have their own Timeouts. The others take a [Policy]:
//
//	policy := idle.Policy{IdleTimeout: time.Minute, WriteTimeout: 10 * time.Second}
//	ln, err = idlenet.Wrap(ln, policy, nil)
//
// # Limits
//
// Every field of a Policy is off when zero. All limits that are set count at the same
// time, and the first one to pass ends the connection.
//
//	limit         limits
//	IdleTimeout   the time without a byte in either direction
//	ReadTimeout   the time without a byte while the server waits for input
//	ReadTotal     all time in which the server waits for input, whatever arrives
//	WriteTimeout  the time without progress while output waits
//	PhaseTimeout  the time under this policy
//	MaxAge        the connection's life
//	Heartbeat     unanswered pings, or missing beats
//	MinReadRate   a slow sender, while the server waits for input
//	MinWriteRate  a slow reader, while output waits
//
// ReadTimeout, ReadTotal and MinReadRate are for times in which the peer has to send, such as
// the rest of a request. On a server that always reads, they end quiet clients.
//
// # Errors
//
// When a limit has passed, reads and writes of the connection fail with an error that names it.
// Other code takes it for an expired deadline.
//
//	var timeout *idle.TimeoutError
//	if errors.As(err, &timeout) {
//		log.Print(timeout.Phase, timeout.Setting, timeout.Limit)
//	}
//
// Setting is the field of Policy, and Limit its value. For a rate, Limit is its Grace. For a
// Heartbeat, it's the time that a silent peer has in all (less its Jitter).
//
// # Phases
//
// A connection begins under the policy that the adapter was given. Its limits may change with
// what it does: a handshake, a login, a request, the wait for the next one. Each of these is a
// [Phase]. [Tracker.Phase] makes one from a Policy, and a connection enters it with its method
// Enter.
//
// Entering a phase takes constant time, and no lock unless the limits become shorter. A phase
// takes about two microseconds to make, and less than a kilobyte. So each client can have its
// own, such as one for the keepalive that it has negotiated.
//
// Entering a phase replaces the whole policy: a limit that the phase doesn't set is off. All
// limits start over except MaxAge, which counts from when tracking began.
//
// # Steering
//
// The adapter's [Tracker] also changes connections that are open, from any goroutine:
//
//	SetPolicy            limits change, for new connections and for those that have them
//	SetCapacity          bounds the connections, in all and per key, and new ones per second;
//	                     those idle longest make room for new ones
//	Drain                tells all connections, and then ends them, idle longest first, at an
//	                     even rate
//	Shed                 the same for some of them, with a cause
//
// Follow of package idle/pressure makes limits tighter while memory or descriptors run out.
// [Conn.End] ends a single one, and the connections of the adapters have it too.
//
// SetCapacity, Drain and Shed do not end a connection while it is busy: in a phase whose
// policy says so, while its server works on a request, or while it has bytes that are not
// read or sent yet. [Tracker.Drain] has the details. Conn.End ends a busy one too.
//
// # Seeing
//
// Any goroutine may ask what there is, what will be, and what was:
//
//	Stats        counts by reason and by phase, and histograms of lifetimes and lateness
//	Census       live connections by phase, idle time and age; how many will end, and when;
//	             a list of them, such as the most idle first
//	Operations   the drains and sheds that are under way
//	RecentEnds   the last connections that have ended, and why
//
// [Options].OnEnds is told of each connection that ends; [LogEnds] is one that logs them. Package
// adapters/idleprom gives all of it to Prometheus, and adapters/idledebug is a page of it.
//
// # What is promised
//
// No connection is timed out before its limit has passed. The timeout comes at most 1⅛
// ticks later. A tick is 10 to 100 ms by default. [Policy] lists the limits that take
// longer. When very many are due at once, [Options].Budget defers some. A connection has
// one outcome: it has ended for one reason, or it has gone by itself.
//
// Input that arrives at that very moment is either delivered, and then its wait does not
// end the connection any more, or it is discarded, as if it had come too late. So a server
// executes no request whose answer is then cut by a timeout of waiting, by an eviction or
// by a drain. PhaseTimeout, MaxAge, the limits of writing, Conn.End and Drain.ForceAfter can cut
// an answer.
//
// Time during which the process did not run is not held against a peer. After a long
// stall all connections have a moment to catch up, if there was much activity before.
// And before one is timed out the adapter asks the kernel whether input waits unread, or
// output has moved.
//
// # Testing
//
// Everything runs in the virtual time of testing/synctest, with net.Pipe in place of
// sockets, so a test of an hour's timeout takes no time:
//
//	synctest.Test(t, func(t *testing.T) {
//		client, server := net.Pipe()
//		defer client.Close()
//		tracker, err := idle.New(idle.Policy{IdleTimeout: time.Hour}, nil)
//		...
//		defer tracker.Close()
//		conn, err := idlenet.WrapConn(server, tracker, nil)
//		...
//		defer conn.Close()
//		_, err = conn.Read(make([]byte, 1)) // fails after an hour, with a *TimeoutError
//	})
//
// Package adapters/idletest has a listener of pipes, for tests of whole servers.
//
// # For authors of adapters
//
// What follows, and all that is not mentioned above, matters to those who write an
// adapter for another kind of connection.
//
// An adapter embeds a [Conn] in its connections, tracks it with [Tracker.Track], and
// reports what it sees: bytes ([Conn.Received], [Conn.Sent], or [Conn.Touch] if they need
// not be counted), and when a read or a write begins and ceases to wait
// ([Conn.AwaitRead], [Conn.PauseRead], [Conn.AwaitWrite], [Conn.PauseWrite]). Before it
// hands on what it has read, it asks [Conn.Deliver]. It reports the end of the connection
// by [Conn.Stop].
//
// The tracker calls the adapter by [Hooks], one value for all connections. [SocketState] is
// what an adapter knows of a connection beyond its reports, usually from the kernel. An
// event loop has a [Shard] of its own, on which nothing is locked: [Tracker.NewShard].
//
// A report costs about a nanosecond. It stores the coarse time in the connection, if that
// has changed, and moves no timer. When the place of the connection in the timing wheel
// comes up, its deadline is computed from what was stored. Unless it has passed, the
// connection gets a new place. So a connection is looked at a few times per timeout,
// however busy it is.
package idle
