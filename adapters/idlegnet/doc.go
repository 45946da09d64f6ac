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
// What moves deadlines is seen around OnTraffic. A loop always reads, so
// ReadTimeout and MinReadRate count whenever nothing arrives. A Wake is not an
// activity. WriteTimeout and MinWriteRate count while gnet holds bytes back
// because the kernel takes no more; bytes that were queued by AsyncWrite, for
// which there is no callback, are found when the limit is looked at next, so
// theirs may count from up to one limit later. Before a connection is timed out
// the kernel is asked whether bytes have moved unseen: unread input after a
// stall of the loop, a slow client that still drains, or what AsyncWrite sent.
// On Unix sockets, and on systems other than Linux, it cannot tell the last;
// see [Conn.Sent].
//
// All of it happens on the loops: callbacks of a connection, those in [Options]
// included, run on its loop and must not block. Nothing is locked there.
//
// UDP passes through untouched. On Windows gnet writes synchronously, so that
// nothing ever waits to go out.
package idlegnet
