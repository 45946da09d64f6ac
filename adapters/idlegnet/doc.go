// Package idlegnet gives the connections of a gnet server or client the
// timeouts that gnet does not have: idle, read, write, age, heartbeat and least
// speed, as an [idle.Policy] says.
//
//	err := gnet.Run(idlegnet.Wrap(&echo{}, idle.Policy{IdleTimeout: time.Minute}, nil), "tcp://:9000")
//
// The handler stays as it is. It sees the same connections, in the same order
// of callbacks, and has their contexts to itself. When a connection passes a
// limit it is closed on its loop, and OnClose gets a [*idle.TimeoutError] that
// says so.
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
// All of it happens on the loops: callbacks of a connection, those in [Options]
// included, run on its loop and must not block. Nothing is locked there.
//
// UDP passes through untouched. On Windows gnet writes synchronously, so that
// nothing ever waits to go out.
package idlegnet
