// Package kernel asks the operating system how a connection is, for adapters
// that are about to end it, and reads and writes connections at a lower price than
// package net.
package kernel

import (
	"net"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// Report is what the kernel knows of a connection. Zero fields are not known.
type Report struct {
	Unread  bool          // input waits to be read
	In, Out time.Duration // since bytes came, and since new bytes went or, of those that wait, some were acknowledged
	Counted bool          // Queued is known
	Queued  uint64        // bytes taken for sending but not acknowledged
	Tallied bool          // Acked is known
	Acked   uint64        // bytes that the peer has acknowledged ever
}

// Evidence returns r as a tracker wants it. Unreported is left to the caller.
func (r Report) Evidence() idle.Evidence {
	return idle.Evidence{In: r.In, Out: r.Out, Unread: r.Unread, OutEmpty: r.Counted && r.Queued == 0}
}

// A Waiter is told when a write has to wait for the peer.
type Waiter interface {
	// WriteWaits tells whether the write has moved anything since it began or was
	// last waiting, and how much is queued, where the kernel tells that but not
	// since when.
	WriteWaits(queued uint64, moved bool)
}

// Plain returns what [Stream] or [Queue] was given to make nc of.
func Plain(nc net.Conn) net.Conn {
	if made, ok := nc.(interface{ plain() net.Conn }); ok {
		return made.plain()
	}
	return nc
}
