// Package idlegnet gives the connections of a gnet server or client the timeouts that gnet
// doesn't have: all limits of an [idle.Policy], such as IdleTimeout, ReadTimeout and Heartbeat.
//
//	h, err := idlegnet.Wrap(&echo{}, idle.Policy{IdleTimeout: time.Minute}, nil)
//	...
//	err = gnet.Run(h, "tcp://:9000")
//
// The handler stays as it is. It sees the same connections, in the same order of callbacks, and
// has their contexts to itself. [Wrap] returns a [*Handler]: its Stats returns the counts, its
// Phase makes phases, and its Conn returns the timeouts of a connection. If your handler needs
// these, let it keep the *Handler in a field that is set before gnet.Run. [Options] has
// callbacks. The package is tested with gnet v2.10.0.
//
// When a connection passes a limit it is closed on its loop, and OnClose gets a
// [*idle.TimeoutError] that says so.
//
// # Phases
//
// A connection whose limits change, after a handshake for example, enters a phase:
//
//	phase, err := h.Phase(idle.Policy{IdleTimeout: time.Hour}) // in OnBoot, or later
//	...
//	h.Conn(c).Enter(phase)
//
// A phase is cheap, so each client can have its own, such as one for the heartbeat that it has
// negotiated. Making one in OnTraffic doesn't block the loop. A limit that is shorter than the tick is
// refused. If clients may ask for short ones, set Options.Idle.Tick, because the default suits the policy of
// Wrap only.
//
// # Callbacks
//
// The callbacks of Options run on the loop of their connection, one at a time, and must not
// block. They may write to the connection, as OnTraffic may. gnet sends what it can at once
// and the rest by itself, so there is nothing to flush.
//
// Write a farewell in OnEnd, which is called for every reason. The connection is closed right
// after it, so bytes for which the kernel has no room may be lost. In a Drain with a
// CloseDelay, OnDrain can ask the client to finish before that.
//
// # Goroutines
//
// [idle.Policy] and [Options] are plain values; Wrap copies them. Everything that happens to a
// connection happens on its loop. The methods of [Conn] must be called there,
// except End, Gnet and those whose names begin with Async. So must [Handler.Conn]. Any
// goroutine may call the other methods of Handler, and the methods of its tracker and phases.
//
// # Shutting down
//
// [Handler.Shutdown] ends the connections at an even rate, refuses new ones meanwhile, and
// then stops the engine:
//
//	err := h.Shutdown(ctx, idle.Drain{Duration: 10 * time.Second, ForceAfter: 30 * time.Second})
//
// A drain waits while bytes are left in gnet's buffer. If a request that was read is handled on another
// goroutine, let its connection enter a phase with Policy.NoInterrupt meanwhile, so that it isn't ended.
//
// If you stop the engine in another way, timeouts go on until the OnShutdown of your handler has
// returned. It may wait there for connections to end. gnet closes those that are left, without
// a farewell. A Drain of the handler's tracker alone doesn't stop gnet from accepting, and
// includes newcomers.
//
// # Descriptors
//
// gnet accepts connections itself. When that fails because there are no descriptors left, gnet
// stops the whole server, and the handler can't prevent that. So use both
// gnet.WithReusePort(true), without which gnet accepts connections faster than its loops can
// close them, and Options.Capacity. Choose MaxConns so that 1.01 × MaxConns + 16 + loops + the
// program's own descriptors are below the limit of descriptors, because a connection above
// MaxConns exists until OnOpen, and an evicted one until its loop has closed it.
//
// # What counts
//
// Input is an activity from the call of OnTraffic until it returns, so a handler that is slow
// to answer doesn't make its connection time out. A loop always reads, so ReadTimeout and
// MinReadRate count whenever nothing arrives. A Wake isn't an activity. The exception is a connection
// with bytes left in gnet's buffer, on Unix sockets and on systems other than Linux, where the kernel
// doesn't tell whether more have arrived. OnTraffic, callbacks of AsyncWrite and tasks may all read.
//
// gnet doesn't report writes, in callbacks or with AsyncWrite. Before a connection times out,
// the kernel is asked whether bytes have moved: output has been sent, a slow client is still
// reading, or input is unread after a stall of the loop. On Unix sockets, and on systems other
// than Linux, the kernel can't tell what was written; see [Conn.Sent].
//
// WriteTimeout and MinWriteRate count while gnet holds bytes back because the kernel has no room.
// gnet doesn't report what AsyncWrite queues. It's found at the next check of the limit, so a
// timeout may take up to twice the limit. On Unix sockets, the number of bytes held back is
// compared with that at the last check. So if a client has read some of them since, or if more
// are queued all the time, the limit may start over.
//
// UDP passes through untouched. On Windows gnet writes synchronously, so no output ever waits.
package idlegnet
