// Package idle times out stale connections: those that are idle, slow, too old, or don't
// answer heartbeats, and those whose peer doesn't send or doesn't read.
//
// A server uses this package through an adapter: adapters/idlenet for a net.Listener or a
// net.Conn, adapters/idlegnet for gnet, adapters/idlehttp for net/http, adapters/idlefasthttp
// for fasthttp. The HTTP adapters take Timeouts; idlenet and idlegnet take a [Policy]:
//
//	policy := idle.Policy{IdleTimeout: time.Minute, WriteTimeout: 10 * time.Second}
//	ln, err = idlenet.Wrap(ln, policy, nil)
//
// Users set a [Policy], or one for each [Phase], and [Options]. They control a [Tracker], with
// [Capacity] and [Drain], and look at [TimeoutError], [Info], [End] and [Stats]. [Conn], [Hooks],
// [SocketState] and [Shard] are for authors of adapters, for whom there is a section at the end. Where a comment says that
// the owner is asked or told something, your adapter calls the function of that name in its options, such as Ping.
//
// # Limits
//
// Every field of a Policy is off when zero. All limits that are set count at the same
// time, and the first one to pass ends the connection.
//
//	limit         limits
//	IdleTimeout   the time without use: without a byte in either direction, or, with ExplicitUse,
//	              without a call of Use
//	ReadTimeout   the time without a byte while the server waits for input
//	WriteTimeout  the time without progress while output waits
//	PhaseTimeout  the time under this policy
//	MaxAge        the connection's life
//	Heartbeat     unanswered pings, or missing beats
//	MinReadRate   a slow sender, while the server waits for input
//	MinWriteRate  a slow reader, while output waits
//
// ReadTimeout and MinReadRate are for times in which the peer has to send, such as
// the rest of a request. On a server that always reads, they end quiet clients. PhaseTimeout is for what has to
// be complete by some time, such as a header.
//
// # Errors
//
// When a limit has passed, reads and writes of the connection fail with an error that names it.
// Code that doesn't know this package sees an expired deadline.
//
//	var timeout *idle.TimeoutError
//	if errors.As(err, &timeout) {
//		log.Print(timeout.Phase, timeout.Setting, timeout.Limit)
//	}
//
// # Phases
//
// A connection begins under the policy that the adapter was given. Its limits may change with
// what the connection does: a handshake, a login, a request, the wait for the next one. Each of
// these is a [Phase]. [Tracker.Phase] makes one from a Policy, and a connection enters it with
// its method Enter.
//
// Entering a phase takes constant time, and no lock unless the limits become shorter. A phase takes about two
// microseconds to make, and less than a kilobyte. So each client can have its own, such as one for the keepalive that
// it has negotiated. A phase needs no closing, and phases of the same name are counted together.
//
// Entering a phase replaces the whole policy: a limit that the phase doesn't set is off. All
// limits start over except MaxAge, which counts from when tracking began.
//
// # Control
//
// The adapter's [Tracker] also changes open connections. Its methods may be called from any
// goroutine:
//
//	SetPolicy            changes the limits of the first phase, for new and open connections; [Phase] has a
//	                     SetPolicy, too, and HTTP listeners have SetTimeouts
//	SetCapacity          bounds the number of connections; evicts the longest idle of a sample
//	Drain                asks all connections to leave and then ends them, idle longest first,
//	                     at an even rate
//	Visit                calls a function for each connection, which may end it
//
// Package adapters/admit bounds the number of connections by key, such as the client's address, and the
// rate of new ones. The recipe examples/recipes/memory makes limits tighter while memory runs out.
// [Conn.End] ends a single connection. The connections of idlenet and idlegnet have this
// method too. For the other adapters, find the connection with Visit, and call
// [Info.End].
//
// SetCapacity, EndIfIdle and Drain don't end a connection while it's busy: while its server works on
// a request, while it has bytes that aren't read or sent yet, or while it's in a phase with
// Policy.NoInterrupt. [Tracker.Drain] has the details. ForceAfter and [Conn.End] end
// busy connections too.
//
// # Observability
//
// Any goroutine may call these methods of the Tracker:
//
//	Stats        counts by reason and by phase, and histograms of lifetimes and lateness
//	Visit        each live connection: its phase, idle time and age, and when it will end
//	Draining     the drain in progress, and how many connections are left
//	RecentEnds   the last connections that have ended, and why
//
// [Options].OnEnds receives each connection that ends. [LogEnds] returns a function for it that
// logs them. Package adapters/idleprom exports the numbers to Prometheus, and
// adapters/idledebug serves a page with all of this.
//
// # Promises
//
// No connection times out before its limit has passed; the Jitter of a [Heartbeat] makes that limit
// shorter. The timeout comes at most 1⅛ ticks
// later. A tick is 10 to 100 ms by default. [Policy] lists the limits that take longer. When
// very many connections are due at once, [Options].Budget defers some. A connection has one
// outcome: either it's ended for one reason, or its owner closes it.
//
// Input may arrive at the moment of a timeout. Then either it is delivered and the connection goes on, or it is
// discarded as if it had come too late. So a server never executes a request whose response is then cut by a limit on
// waiting for input, an eviction, or a drain before its ForceAfter. PhaseTimeout, MaxAge, the limits of writing,
// Conn.End and ForceAfter can cut a response, and so can IdleTimeout and a Heartbeat, which count on from the input.
//
// Limits go by the monotonic clock, so setting the system's time has no effect.
//
// Time in which the process didn't run isn't held against a peer. Before a connection times
// out, the adapter asks the kernel whether input is unread or output has moved. If the tracker
// finds that it runs ten ticks late, nothing times out for another five, so that connections
// can catch up. An almost idle tracker sleeps, so it notices a stall only if a timeout was due meanwhile.
//
// # Testing
//
// Everything runs in the virtual time of testing/synctest, with net.Pipe instead of sockets,
// so a test of a timeout of an hour takes no time. docs/testing.md shows how. Package adapters/idletest
// has a listener of pipes, for tests of whole servers.
//
// # For authors of adapters
//
// Users of an adapter don't need the rest:
//
//	Conn         a connection's state, with the methods by which an adapter reports what happens
//	Hooks        what the tracker calls, one value for all connections
//	SocketState  what an adapter knows beyond its reports, usually from the kernel
//	Shard        the connections of an event loop, where passes run; Tracker.NewShard makes it
//	Tracker      NewPhased, and its methods Track, Expect, NewShard and Setting
//
// An adapter embeds a [Conn] in its connections and tracks it with [Tracker.Track]. It reports
//
//   - bytes: [Conn.Received] and [Conn.Sent], or [Conn.Touch] and [Conn.TouchOut] if they need not be counted;
//   - waits: [Conn.AwaitRead] and [Conn.PauseRead], [Conn.AwaitWrite] and [Conn.PauseWrite];
//   - input that the application is about to get: [Conn.Deliver];
//   - use and beats, which its users report to it: [Conn.Use], [Conn.Beat];
//   - the end: [Conn.Stop].
//
// A report of an activity costs about a nanosecond. It stores the coarse time in the
// connection, if that has changed, and moves no timer. When the connection's place in the
// timing wheel comes up, its deadline is computed from what was stored. If the deadline
// hasn't passed, the connection gets a new place. So a connection is checked a few times per
// timeout, however busy it is.
package idle

// The files of this package are in rooms, which their names begin with. rooms_test.go says which
// room may use which.
//
//	policy           what users set, and Phase, which is a policy in force
//	tracker          Options, New, and the list of shards
//	errors           reasons and TimeoutError
//	hooks            what only authors of adapters need, besides Conn and Shard
//
//	limits           the table of limits, and when each passes, from plain values
//	conn             a connection's methods, and what its words and flags mean
//
//	engine_shard     connections come and go, and Close
//	engine_driver    the goroutine that runs passes, lets the clock sleep, and notices stalls
//	engine_pass      a pass over the wheel, within its budget
//	engine_check     one connection that is due: Probe, pings, OnTimeout, and its end
//	engine_place     where it goes in the wheel
//	engine_visit     visits to all connections, and Visit
//	engine_mailbox   connections that others want a shard to end
//
//	control_capacity SetCapacity, and who is evicted
//	control_drain    Drain, and the turns of connections
//
//	stats            counts, histograms, and records of ends
//
// What needs to know no connection is in packages of its own: the timing wheel in wheel, and in
// internal
//
//	clock            the coarse clock; when it sleeps is in sleep.go
//	batch            records that are kept, and delivered by a goroutine
//	callbacks        their goroutines and panics
