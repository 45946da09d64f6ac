// Package idlegnet gives the connections of a gnet server or client the
// timeouts that gnet does not have: idle, read, write, age, heartbeat and minimum
// rate, as an [idle.Policy] says.
//
//	h, err := idlegnet.Wrap(&echo{}, idle.Policy{IdleTimeout: time.Minute}, nil)
//	...
//	err = gnet.Run(h, "tcp://:9000")
//
// The handler stays as it is. It sees the same connections, in the same order
// of callbacks, and has their contexts to itself. [Wrap] returns a [*Handler], of
// which Stats has the counts, Phase makes phases and Conn finds the timeouts of a
// connection. [Options] has callbacks for servers that want a say.
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
// # Goroutines
//
// [idle.Policy] and [Options] are plain values; Wrap copies them. All that happens
// to a connection happens on its loop: its callbacks, those in Options included, run
// there, one at a time, and must not block. The methods of [Conn] must be called
// there, but for AsyncEnter and AsyncBeat; those of Handler, but for Conn, and of the
// tracker and its phases may be called by any goroutine. Nothing is locked on a loop.
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
// tell what was written; see [Conn.Sent]. WriteTimeout and MinWriteRate count while
// gnet holds bytes back because the kernel takes no more; bytes that were queued by
// AsyncWrite, for which there is no callback, are found when the limit is looked at
// next, so theirs may count from up to one limit later. On Unix sockets what is held
// back is compared with what it was at the last look, so a client that has taken
// some since, or for which more is queued all the time, may be given the limit once
// more.
//
// UDP passes through untouched. On Windows gnet writes synchronously, so that
// nothing ever waits to go out.
package idlegnet
