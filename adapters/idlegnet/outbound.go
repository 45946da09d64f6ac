package idlegnet

import (
	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// A backlog describes the bytes that gnet holds back because the kernel has no room. Callbacks
// and AsyncWrite add bytes, and bytes leave when the socket becomes writable. gnet reports
// neither. So idlegnet reports a write that always waits, and the tracker calls examine when the
// limit seems to have passed. If examine is the first to find bytes held back, their wait begins
// then.
type backlog struct {
	held int  // bytes held back at the last check
	sent int  // bytes that have left since the last probe, as far as seen
	grew bool // bytes were added since the last probe, which may hide some that left

	hasTimes    bool   // the kernel reports when output last moved
	acked       uint64 // bytes that the peer has acknowledged, as far as the kernel reports that
	kernelQueue uint64 // length of the kernel's send queue at the last probe
	stillProbes int    // consecutive probes without progress
	probed      bool   // there was a probe
}

// maxStillProbes is the number of probes without progress after which the peer is believed to
// have stopped. It's for sockets for which the kernel doesn't report when output last moved.
const maxStillProbes = 8

// causeUnsent is the cause of an end because gnet holds back more bytes than MaxUnsent.
const causeUnsent = "max_unsent"

// checkBacklog records that gnet holds n bytes back, and ends the connection if that
// is more than MaxUnsent.
func (s *conn) checkBacklog(n int) {
	if most := s.loop.run.most; most > 0 && n > most {
		s.track.End(causeUnsent)
	}
	s.updateBacklog(n)
}

// updateBacklog records that gnet holds n bytes back, or is about to write them.
func (s *conn) updateBacklog(n int) {
	b := s.rare.backlog
	switch {
	case n == 0 && b == nil:
	case n == 0:
		s.own().backlog = nil
	case b == nil:
		s.startBacklog(n)
	case n < b.held:
		b.sent += b.held - n
		b.stillProbes = 0
		if !b.hasTimes { // they may have left just now
			s.track.Sent(0)
		}
		b.held = n
	case n > b.held:
		b.grew = true
		b.held = n
	}
}

// startBacklog starts a wait for n bytes to be sent.
func (s *conn) startBacklog(n int) {
	r := kernel.Inspect(uintptr(s.c.Fd()))
	b := &backlog{held: n, hasTimes: r.Out > 0, acked: r.Acked, kernelQueue: r.Queued}
	s.own().backlog = b
	s.track.RestartWrite() // no write was waiting until now, although one was reported
}

// addProgress completes e, the evidence from r, with what is known about the backlog.
func (s *conn) addProgress(e *idle.SocketState, r kernel.Report) {
	b := s.rare.backlog
	if b == nil {
		e.NotWriting = true
		return
	}
	e.OutEmpty = false // gnet holds bytes back
	if r.Out > 0 {     // TCP: the kernel reports when output last moved
		if r.AckedKnown {
			e.Unreported, b.acked = int(r.Acked-b.acked), r.Acked
		}
		return
	}
	grew := b.grew
	left := max(b.sent+int(b.kernelQueue)-int(r.Queued), 0) // what gnet has sent is in the queue, or has left it
	if !b.probed {                                          // in advance: a Unix socket has large buffers, and frees one when the peer has read all of it
		b.probed = true
		left += int(r.Queued / 2)
	}
	e.Unreported, b.sent, b.grew = left, 0, false
	switch {
	case r.Queued != b.kernelQueue:
		// gnet holds bytes back only while the kernel's queue is full. So the
		// queue changes only if the peer reads.
		b.kernelQueue, b.stillProbes = r.Queued, 0
		e.Out = 1
		if grew { // how fast it reads isn't known
			e.NotWriting = true
		}
	case b.stillProbes < maxStillProbes:
		// The queue may have changed and be the same again by chance, if AsyncWrite has added as
		// much as has left. So it is probed again after part of the limit. Doubt delays
		// WriteTimeout only. IdleTimeout doesn't need it, because Conn.Sent reports what
		// AsyncWrite has sent.
		b.stillProbes++
		limit := s.rare.phase.Policy().WriteTimeout
		e.Doubt = limit - limit/maxStillProbes
	}
}
