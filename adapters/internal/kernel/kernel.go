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

// Pulse returns r as [idle.Prober] has it. Unreported is left to the caller.
func (r Report) Pulse() idle.Pulse {
	return idle.Pulse{In: r.In, Out: r.Out, Unread: r.Unread, Drained: r.Counted && r.Queued == 0}
}

// Plain returns what [Stream] or [Queue] was given to make nc of.
func Plain(nc net.Conn) net.Conn {
	if made, ok := nc.(interface{ plain() net.Conn }); ok {
		return made.plain()
	}
	return nc
}
