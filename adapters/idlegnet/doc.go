// Package idlegnet gives the connections of a gnet server or client the
// timeouts that gnet does not have: idle, read, write, age, heartbeat and minimum
// rate, as an [idle.Policy] says.
//
//	h, err := idlegnet.Wrap(&echo{}, idle.Policy{IdleTimeout: time.Minute}, nil)
//	...
//	err = gnet.Run(h, "tcp://:9000")
//
// The handler stays as it is. It sees the same connections, in the same order
// of callbacks, and has their contexts to itself. [Wrap] returns a [*Handler]: its Stats
// has the counts, its Phase makes phases, and its Conn finds the timeouts of a
// connection. A handler that needs these keeps what Wrap returns in a field, which is set
// before gnet.Run. [Options] has callbacks.
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
// A phase is cheap, so each client can have its own, for a heartbeat that it has
// negotiated for example. Making one, in OnTraffic, does not block the loop.
//
// # Callbacks
//
// The callbacks of Options run on the loop of the connection that they get, one at a
// time, and must not block. They may write to it, as OnTraffic may. gnet sends what it
// can at once and the rest by itself, so there is nothing to flush.
//
// A farewell is written in OnEnd, for whatever reason the connection ends. The connection is
// closed right after, so what the kernel does not take at once may be lost. In a Drain or
// Shed with a CloseDelay, OnDrain asks the client to finish before.
//
// # Goroutines
//
// [idle.Policy] and [Options] are plain values; Wrap copies them. All that happens
// to a connection happens on its loop, where nothing is locked. The methods of [Conn]
// must be called there, but for AsyncEnter and AsyncBeat. So must [Handler.Conn]. The
// other methods of Handler, and those of its tracker and phases, may be called by any
// goroutine.
//
// # Shutting down
//
// [Handler.Shutdown] ends the connections at an even rate, refuses new ones meanwhile, and
// then stops the engine:
//
//	err := h.Shutdown(ctx, idle.Drain{Duration: 10 * time.Second, ForceAfter: 30 * time.Second})
//
// A callback that works on another goroutine enters a phase with Policy.NoInterrupt for as long,
// so that its connection is not ended meanwhile.
//
// Without it, timeouts go on until the OnShutdown of the wrapped handler has returned, which
// may wait there for connections to end. gnet closes those that are left, without a
// farewell. A Drain of the handler's tracker alone does not keep gnet from accepting, and
// includes those who come.
//
// # Descriptors
//
// gnet accepts connections itself. When that fails because there are no descriptors left,
// gnet stops the whole server, and the handler can't prevent that. So use both
// gnet.WithReusePort(true), without which gnet accepts connections faster than its loops can
// close them, and an [idle.Capacity]. Choose MaxConns so that 1.1 × MaxConns + 17 × loops + the
// program's own descriptors are below the limit of descriptors: a connection above MaxConns
// exists until OnOpen, and one that is evicted until its loop has closed it.
//
// # What counts
//
// What arrives is seen when OnTraffic is called, and is an activity until it
// returns: a handler that is slow to answer does not have its connection time out.
// A loop always reads, so ReadTimeout and MinReadRate count whenever nothing
// arrives. A Wake is not an activity.
//
// What is written, be it in a callback or by AsyncWrite, is not seen. Before a
// connection is timed out the kernel is asked whether bytes have moved: what was
// written has gone out, a slow client still drains, or input is unread after a
// stall of the loop. On Unix sockets, and on systems other than Linux, it cannot
// tell what was written; see [Conn.Sent].
//
// WriteTimeout and MinWriteRate count while gnet holds bytes back because the kernel
// takes no more. There is no callback for what AsyncWrite queues. It is found when the
// limit is looked at next, so a timeout may take up to twice the limit. On Unix
// sockets what is held back is compared with what it was at the last look. So a client
// that has taken some since, or for which more is queued all the time, may be given the
// limit once more.
//
// UDP passes through untouched. On Windows gnet writes synchronously, so that
// nothing ever waits to go out.
package idlegnet
