// Package kernel inspects the socket of a connection that is about to be timed
// out, and reads and writes sockets at a lower cost than package net does.
package kernel

import (
	"net"
	"syscall"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// Report is what the kernel knows about a connection. A field that is zero is
// unknown. A value that may be zero has a field beside it that says whether it is known.
type Report struct {
	Unread      int           // how many bytes are waiting to be read, or 1 if the system only reports that there are some
	In, Out     time.Duration // time since bytes arrived, and since output moved; see Inspect
	QueuedKnown bool          // Queued is known
	Queued      uint64        // bytes written that the peer has not acknowledged; of a Unix socket, the memory that they take
	NotSent     uint64        // bytes of Queued that are not sent yet, because the peer or the network is slow
	AckedKnown  bool          // Acked is known
	Acked       uint64        // bytes that the peer has acknowledged since the connection was made
}

// Evidence converts r to what an owner's Probe returns. It leaves Unreported to
// the caller, who knows what has been reported before.
func (r Report) Evidence() idle.SocketState {
	return idle.SocketState{
		In: r.In, Out: r.Out, Unread: r.Unread > 0, OutEmpty: r.QueuedKnown && r.Queued == 0, Sending: r.Sending(),
	}
}

// stalledAfter is how long output may stand still until the peer is no longer taken for one that
// receives it.
const stalledAfter = 5 * time.Second

// Sending reports whether the peer is receiving more than the network holds. If the socket is
// closed now and the peer sends anything before it has received all, the kernel resets the
// connection, and the rest is lost. Clients of HTTP/2 do that: they send WINDOW_UPDATE frames while
// they read. Bytes that only wait to be acknowledged don't count, because there are always some if a
// peer talks all the time.
func (r Report) Sending() bool { return r.NotSent > 0 && 0 < r.Out && r.Out < stalledAfter }

// A Waiter is notified when a write starts to wait for the peer.
type Waiter interface {
	// WriteWaits is called each time a write finds no room in the send buffer. n is how many bytes
	// the write has put there since it began or since the previous call. WriteWaits is called on
	// the writing goroutine, and must not block.
	WriteWaits(n int)
}

// A Simulated connection isn't the kernel's, but answers as a kernel would. It's for tests with a
// network in memory.
type Simulated interface {
	// Report returns what [InspectConn] does.
	Report() Report

	// Notify notifies w as [Stream] does, and reports whether it will.
	Notify(w Waiter) bool
}

// Unwrap returns the connection that [Stream] or [Queue] wrapped. It returns nc
// itself if neither of them made it.
func Unwrap(nc net.Conn) net.Conn {
	if made, ok := nc.(interface{ unwrap() net.Conn }); ok {
		return made.unwrap()
	}
	return nc
}

// InspectConn is [Inspect] of the socket that nc is or wraps. The Report is zero if there is no
// socket, if it's closed, or if the system doesn't report anything.
func InspectConn(nc net.Conn) (r Report) {
	if sim, ok := nc.(Simulated); ok {
		return sim.Report()
	}
	control(nc, func(fd uintptr) { r = Inspect(fd) })
	return r
}

// Queued returns Report.Queued of the socket that nc is or wraps, or 0 if it is not known.
func Queued(nc net.Conn) (n uint64) {
	if sim, ok := nc.(Simulated); ok {
		return sim.Report().Queued
	}
	control(nc, func(fd uintptr) { n = queued(fd) })
	return n
}

// control calls f with the descriptor of the socket that nc is or wraps, if there is one.
func control(nc net.Conn, f func(fd uintptr)) {
	if sc := SocketUnder(nc); sc != nil {
		if raw, err := sc.SyscallConn(); err == nil {
			raw.Control(f)
		}
	}
}

// SocketUnder returns the socket that nc is or wraps, or nil if none can be found.
func SocketUnder(nc net.Conn) syscall.Conn {
	socket, _ := Under[syscall.Conn](nc)
	return socket
}

// Under returns nc, or the first connection inside it, that is a T. It looks through wrappers by their
// method NetConn, such as that of *tls.Conn, or Raw, such as that of github.com/pires/go-proxyproto.
func Under[T any](nc net.Conn) (found T, ok bool) {
	for {
		if found, ok = nc.(T); ok {
			return found, true
		}
		switch c := nc.(type) {
		case interface{ NetConn() net.Conn }:
			nc = c.NetConn()
		case interface{ Raw() net.Conn }:
			nc = c.Raw()
		default:
			return found, false
		}
	}
}
