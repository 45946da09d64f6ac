package idlegnet

import (
	"net"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// A backlog is what is known of the bytes that gnet holds back because the
// kernel takes no more. They come from any callback, and from AsyncWrite, and
// they leave when the socket becomes writable; nobody is told of the latter
// two. So the tracker is told that bytes always wait. When that has lasted for
// the limit it asks (Waiting), and a wait of which nothing was known begins then.
type backlog struct {
	began time.Time
	left  int  // how many bytes there were at the last look
	gone  int  // how many were seen to be gone since the last probe
	grew  bool // more came since then, so that some may be gone unseen

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
	s.backlog = &backlog{began: time.Now(), left: n, timed: tcp && kernel.SeesOutput}
	if !tcp || s.phase.Policy().MinWriteRate.BytesPerSecond > 0 {
		r := kernel.Inspect(uintptr(s.c.Fd()))
		s.backlog.counted, s.backlog.queue = r.Tallied, r.Queued
	}
	s.track.PauseWrite() // the wait that the tracker believed in was none
	s.track.AwaitWrite()
}

// Waiting implements idle.Waiter. It needs no system call, so that a connection
// on which nothing waits costs next to nothing once a limit.
func (s *conn) Waiting() (read, write bool) {
	if s.loop.refused == s {
		return true, true
	}
	known := s.backlog != nil
	s.look(s.c.OutboundBuffered())
	if s.backlog == nil {
		s.track.AwaitWrite()
	}
	return true, known && s.backlog != nil
}

// progress completes what the kernel reports by what is known here.
func (s *conn) progress(p *idle.Pulse, r kernel.Report) {
	b := s.backlog
	if b == nil {
		p.Drained = true
		return
	}
	p.Drained = s.tooNew(r)
	if r.Out > 0 { // the kernel counts the bytes of TCP
		if b.counted {
			p.Unreported = int(r.Acked - s.credited)
			s.credited = r.Acked
		}
		return
	}
	grew := b.grew
	p.Unreported, b.gone, b.grew = b.gone, 0, false
	switch {
	case r.Queued != b.queue:
		// With bytes held back the kernel's queue is full, so it changes only
		// if the peer reads.
		b.queue, b.samples = r.Queued, 0
		p.Out = 1
		if grew { // by how much it reads cannot be told
			p.Drained = true
		}
	case b.samples < samples:
		// It may have changed and be by chance as it was, while AsyncWrite makes
		// up for what has gone. So it is asked again in a part of the limit. That
		// is a matter of WriteTimeout alone: IdleTimeout has been told of what
		// AsyncWrite wrote (Conn.Sent).
		b.samples++
		limit := s.phase.Policy().WriteTimeout
		p.Doubt = limit - limit/samples
	}
}

// tooNew reports whether the bytes have not waited for long enough for a least
// speed to be told, and no other limit is passed. The tracker has counted the
// time before, when nothing waited, as well.
func (s *conn) tooNew(r kernel.Report) bool {
	p, waited := s.phase.Policy(), time.Since(s.backlog.began)
	if p.MinWriteRate.BytesPerSecond == 0 || waited >= p.MinWriteRate.Grace {
		return false
	}
	still := waited
	if r.Out > 0 {
		still = min(still, r.Out)
	}
	return p.WriteTimeout == 0 || still < p.WriteTimeout
}
