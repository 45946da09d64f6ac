package idlegnet

import (
	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// A conn is what is kept of a connection from OnOpen to OnClose. All but c,
// which never changes, is used on its loop only. It is not used again for
// another connection, so that whoever still holds it afterwards does no harm.
type conn struct {
	track   idle.Conn // first: what an activity needs of it is one cache line then
	c       gnet.Conn // held, not embedded: its methods are none of the owner's
	inbound int       // bytes left unread by the last OnTraffic; -1 after OnClose
	backlog *backlog  // nil if nothing is known to wait to go out

	loop    *loop
	phase   *idle.Phase
	timeout *idle.TimeoutError // when it is being closed for that

	credited uint64 // up to which byte the peer is credited for taking, where the kernel counts

	_ [16]byte // makes it 192 bytes, which Go places at the start of a cache line
}

// close notes that OnClose has been called.
func (s *conn) close() { s.inbound = -1 }

func (s *conn) closed() bool { return s.inbound < 0 }

// before is called when OnTraffic begins, and reports whether something has
// arrived.
//
// Wake calls OnTraffic without new bytes. If there are fewer than were left,
// some were read elsewhere on the loop, and it cannot be told whether some
// are new; then it is better to believe so.
func (s *conn) before() (arrived bool) {
	if n := s.c.InboundBuffered(); n != s.inbound {
		s.track.Received(max(n-s.inbound, 0))
		arrived = true
	}
	if s.backlog != nil {
		s.look(s.c.OutboundBuffered())
	}
	return arrived
}

// after is called when something that may have read, written, or closed the
// connection has returned.
func (s *conn) after() {
	if s.closed() {
		return
	}
	s.inbound = s.c.InboundBuffered()
	if n := s.c.OutboundBuffered(); n > 0 || s.backlog != nil {
		s.look(n)
	}
}

// opened is called when OnOpen has returned n bytes, which gnet is to write. The
// limits count from here, however long that has taken.
func (s *conn) opened(n int) {
	s.track.Touch()
	s.after()
	if n > 0 && !s.closed() {
		s.look(s.c.OutboundBuffered() + n)
	}
}

// expire closes the connection.
func (s *conn) expire(err *idle.TimeoutError) {
	s.timeout = err
	if err.Reason == idle.ReasonWrite || err.Reason == idle.ReasonMinWriteRate {
		s.c.SetLinger(0) // or the kernel keeps what the peer does not take for minutes yet
	}
	s.loop.close(s.c)
}

// ask asks the user. A farewell that is written then must not pass for a sign of
// life, so that a refusal is final; see examine.
func (s *conn) ask(keeps func(gnet.Conn, *idle.TimeoutError) bool, err *idle.TimeoutError) bool {
	defer s.after()
	keep := keeps(s.c, err)
	if !keep {
		s.loop.refused = s
	}
	return keep
}

// ping has the user ping. If a write fails gnet closes the connection.
func (s *conn) ping(message func(gnet.Conn) []byte) error {
	defer s.after()
	b := message(s.c)
	if len(b) == 0 || s.closed() {
		return nil
	}
	if _, err := s.c.Write(b); err != nil {
		return err
	}
	if s.c.OutboundBuffered() == 0 {
		s.track.Sent(len(b))
	}
	return nil
}

// examine tells the tracker what gnet and the kernel know. If the question is about
// writing and nothing waits to go out, gnet alone can answer it: no system call is made.
func (s *conn) examine(about idle.Reason) idle.Evidence {
	if s.loop.refused == s {
		return idle.Evidence{}
	}
	s.look(s.c.OutboundBuffered())
	if s.backlog == nil && (about == idle.ReasonWrite || about == idle.ReasonMinWriteRate) {
		return idle.Evidence{NotWriting: true}
	}
	r := kernel.Inspect(uintptr(s.c.Fd()))
	e := r.Evidence()
	s.progress(&e, r)
	return e
}
