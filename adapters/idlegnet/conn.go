package idlegnet

import (
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// A conn is the state of a connection from OnOpen to OnClose. Only the connection's loop uses it,
// except for c, which never changes. It is never used for a second connection, so keeping a
// reference for too long does no harm.
type conn struct {
	c     gnet.Conn // a named field: a conn does not offer its methods
	loop  *loop
	rare  *rare // the loop's, which all share, or this connection's; see own
	track idle.Conn
}

// rare has the state that most connections of a loop share.
type rare struct {
	inbound int32         // bytes that the last callback left unread; -1 after OnClose
	reads   bool          // bytes are also read elsewhere, such as in the callback of an AsyncWrite
	leftAt  time.Duration // when the last OnTraffic with new bytes left some, since the run began
	backlog *backlog      // nil if no bytes are known to be waiting in gnet
	phase   *idle.Phase
}

// own returns a rare of the connection's own, to be changed. It allocates it at the
// first call.
func (s *conn) own() *rare {
	if l := s.loop; s.rare == &l.opened || s.rare == &l.closed {
		copied := *s.rare
		s.rare = &copied
	}
	return s.rare
}

// markClosed records that OnClose has been called.
func (s *conn) markClosed() { s.rare = &s.loop.closed }

func (s *conn) closed() bool { return s.rare.inbound < 0 }

// beforeTraffic is called when OnTraffic begins. It reports whether bytes have
// arrived.
//
// Wake calls OnTraffic without new bytes. If more bytes are buffered than were left, the rest is new.
// Otherwise it is a Wake, or bytes were read elsewhere meanwhile. From then on, until none are left, it
// isn't known how many are new, so all that are buffered count.
func (s *conn) beforeTraffic() (arrived bool) {
	switch n, left := s.c.InboundBuffered(), int(s.rare.inbound); {
	case n > left && !s.rare.reads:
		s.track.Received(n - left)
		arrived = true
	case n > left || n > 0 && !s.isWake():
		s.own().reads = true
		s.track.Received(n)
		arrived = true
	}
	if s.rare.backlog != nil {
		s.checkBacklog(s.c.OutboundBuffered())
	}
	return arrived
}

// isWake reports whether OnTraffic is called although nothing has arrived since some bytes were left. If
// the kernel doesn't report when bytes arrived, as for Unix sockets, it returns false.
func (s *conn) isWake() bool {
	r := kernel.Inspect(uintptr(s.c.Fd()))
	if r.Unread > 0 { // these will have an OnTraffic of their own
		return true
	}
	doubt := 20 * time.Millisecond // In may be that much too small
	if s.rare.reads {
		doubt = 0
	}
	return r.In > 0 && r.In+doubt >= s.loop.run.elapsed()-s.rare.leftAt
}

// afterTraffic is called when an OnTraffic has returned.
func (s *conn) afterTraffic(arrived bool) {
	s.afterCallback()
	if !arrived {
		return
	}
	s.track.Touch() // again, because nothing else of the connection could move while the handler was running
	if s.rare.inbound > 0 {
		s.own().leftAt = s.loop.run.elapsed()
	}
}

// afterCallback is called when a callback has returned that may have read,
// written, or closed the connection.
func (s *conn) afterCallback() {
	if s.closed() {
		return
	}
	if n := int32(s.c.InboundBuffered()); n != s.rare.inbound {
		s.own().inbound = n
		s.rare.reads = s.rare.reads && n > 0
	}
	if n := s.c.OutboundBuffered(); n > 0 || s.rare.backlog != nil {
		s.checkBacklog(n)
	}
}

// afterOpen is called when OnOpen has returned n bytes for gnet to write. The
// limits count from here, however long OnOpen took.
func (s *conn) afterOpen(n int) {
	s.track.Touch()
	s.afterCallback()
	if n == 0 || s.closed() {
		return
	}
	n += s.c.OutboundBuffered()
	s.updateBacklog(n)
	if most := s.loop.run.most; most > 0 && n > most { // check again when gnet has written what the kernel accepts
		_ = s.loop.run.execute(s.loop.el, s.afterCallback) // fails only during a shutdown
	}
}

// expire closes the connection, unless OnEnd has. Then its descriptor may be another one's.
func (s *conn) expire(err *idle.TimeoutError) {
	if s.closed() {
		return
	}
	s.loop.expired, s.loop.timeout = s, err
	if err.Cause == causeUnsent || err.Reason == idle.ReasonWrite || err.Reason == idle.ReasonMinWriteRate {
		s.c.SetLinger(0) // otherwise the kernel keeps unsent data for minutes
	}
	s.loop.close(s.c)
}

// onTimeout calls the user's OnTimeout.
func (s *conn) onTimeout(ask func(gnet.Conn, *idle.TimeoutError) bool, err *idle.TimeoutError) bool {
	defer s.afterCallback()
	return ask(s.c, err)
}

// ping calls the user's Ping. gnet closes the connection if a write in it fails.
func (s *conn) ping(write func(gnet.Conn) error) error {
	defer s.afterCallback()
	if err := write(s.c); err != nil || s.closed() {
		return err
	}
	if s.c.OutboundBuffered() == 0 {
		s.track.TouchOut()
	}
	return nil
}

// examine returns what gnet and the kernel know about the connection. For a limit
// of writing it makes no system call if gnet holds no bytes back.
func (s *conn) examine(about idle.Reason) idle.SocketState {
	s.checkBacklog(s.c.OutboundBuffered())
	if s.rare.backlog == nil && (about == idle.ReasonWrite || about == idle.ReasonMinWriteRate) {
		return idle.SocketState{NotWriting: true}
	}
	r := kernel.Inspect(uintptr(s.c.Fd()))
	e := r.Evidence()
	s.addProgress(&e, r)
	if about == idle.ReasonDrain && s.c.InboundBuffered() > 0 { // a request that the handler has not taken yet
		e.Unread = true
	}
	return e
}
