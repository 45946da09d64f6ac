package idlegnet

import (
	"net"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// A backlog is what is known of the bytes that gnet holds back because the
// kernel takes no more. They come from any callback, and from AsyncWrite, and
// they leave when the socket becomes writable; nobody is told of the latter
// two. So the tracker is told that bytes always wait. When that has lasted for
// the limit, it asks (examine). If bytes wait that nobody has told of, their wait begins
// at that moment.
type backlog struct {
	left int  // how many bytes there were at the last look
	gone int  // how many were seen to be gone since the last probe
	grew bool // more came since then, so that some may be gone unseen

	timed   bool   // the kernel tells when bytes went out
	counted bool   // the kernel counts what the peer takes
	queue   uint64 // in the kernel's own queue, at the last probe
	samples int    // probes in a row that saw no progress
}

// samples is how often a socket of which the kernel does not count the bytes is
// probed before its peer is believed to have stopped.
const samples = 8

// look takes note that gnet holds n bytes back.
func (s *conn) look(n int) {
	b := s.backlog
	switch {
	case n == 0:
		s.backlog = nil
	case b == nil:
		s.beginBacklog(n)
	case n < b.left:
		b.gone += b.left - n
		b.samples = 0
		if !b.timed { // it may have been just now
			s.track.Sent(0)
		}
		b.left = n
	case n > b.left:
		b.grew = true
		b.left = n
	}
}

// beginBacklog begins a wait for n bytes to go out.
func (s *conn) beginBacklog(n int) {
	_, tcp := s.c.LocalAddr().(*net.TCPAddr)
	s.backlog = &backlog{left: n, timed: tcp && kernel.SeesOutput}
	if !tcp || s.phase.Policy().MinWriteRate.BytesPerSecond > 0 {
		r := kernel.Inspect(uintptr(s.c.Fd()))
		s.backlog.counted, s.backlog.queue = r.AckedKnown, r.Queued
	}
	s.track.RestartWrite() // the wait that the tracker believed in was none
}

// progress completes what the kernel reports by what is known here.
func (s *conn) progress(e *idle.Evidence, r kernel.Report) {
	b := s.backlog
	if b == nil {
		e.NotWriting = true
		return
	}
	e.OutEmpty = false // gnet holds some back
	if r.Out > 0 {     // the kernel counts the bytes of TCP
		if b.counted {
			e.Unreported = int(r.Acked - s.credited)
			s.credited = r.Acked
		}
		return
	}
	grew := b.grew
	e.Unreported, b.gone, b.grew = b.gone, 0, false
	switch {
	case r.Queued != b.queue:
		// With bytes held back the kernel's queue is full, so it changes only
		// if the peer reads.
		b.queue, b.samples = r.Queued, 0
		e.Out = 1
		if grew { // by how much it reads cannot be told
			e.NotWriting = true
		}
	case b.samples < samples:
		// It may have changed and be by chance as it was, while AsyncWrite makes
		// up for what has gone. So it is asked again in a part of the limit. That
		// is a matter of WriteTimeout alone: IdleTimeout has been told of what
		// AsyncWrite wrote (Conn.Sent).
		b.samples++
		limit := s.phase.Policy().WriteTimeout
		e.Doubt = limit - limit/samples
	}
}
