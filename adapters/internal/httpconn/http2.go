package httpconn

import (
	"cmp"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// streams tracks requests of HTTP/2. They have their own tracker, so that they are not counted as
// connections.
type streams struct {
	tracker *idle.Tracker // nil without HTTP/2
	hooks   idle.Hooks
	window  int64 // see SetWindow
}

// init makes the tracker of streams of l.
func (s *streams) init(l *Listener) (err error) {
	s.hooks = idle.Hooks{
		Probe:     func(owner any, about idle.Reason) idle.SocketState { return owner.(*Stream).probe(about) },
		OnTimeout: func(owner any, err *idle.TimeoutError) bool { return owner.(*Stream).onTimeout(err) },
		Expire:    func(owner any, err *idle.TimeoutError) { owner.(*Stream).fail(err) },
	}
	opts := l.options
	opts.OnEnds = nil // it is for connections
	s.tracker, err = idle.NewPhased(&opts, l.setting)
	return err
}

// A traffic is what an HTTP/2 connection moves.
//
// A handler gets a frame of a body when all of it has arrived, and a frame may be large. Frames of other streams may come
// first, too. So a stream may wait for long although its client sends, or receives, all the time. That's why all bytes that
// a connection moves in a direction count for each stream that waits in that direction.
//
// Some of what has arrived may be in bodies that handlers don't read at present. Then the window of the connection may be
// closed, so that the client may not send.
type traffic struct {
	arrived, sent atomic.Int64 // bytes, of frames of any kind; sent means accepted by the kernel

	bodies  atomic.Int64 // how many bodies are not read to their end
	readers atomic.Int64 // how many handlers wait for one
	read    atomic.Int64 // bytes that handlers have read
	allRead atomic.Int64 // arrived less read when there was no stream

	asked atomic.Int64 // see Stream.IsEighth
	end   atomic.Int64 // sent at the end of the last response; unknown until something is written after that
	kept  atomic.Int64 // taken when isReceiving last looked
}

// newTraffic returns a traffic for c. What was sent before, such as a handshake of TLS, counts, because the kernel counts it too.
func (c *Conn) newTraffic() *traffic {
	t, r := new(traffic), c.Inspect()
	if r.AckedKnown {
		t.sent.Store(int64(r.Acked + r.Queued))
	}
	return t
}

// traffic returns what c moves, or nil if c doesn't speak HTTP/2.
func (c *Conn) traffic() *traffic {
	if s := c.state.Load() &^ flags; s == http2 || s == http2Idle {
		return c.extra.Load().traffic
	}
	return nil
}

// rest records that there is no stream any more.
func (t *traffic) rest() {
	t.asked.Store(0)
	t.end.Store(unknown)
	t.kept.Store(unknown)
	t.allRead.Store(t.arrived.Load() - t.read.Load())
}

// SpeaksHTTP2 reports whether the server has reported that c speaks HTTP/2.
func (c *Conn) SpeaksHTTP2() bool { return c.traffic() != nil }

// isShut reports whether the connection's window may be closed. net/http opens it when handlers read.
func (t *traffic) isShut(window int64) bool {
	return t.readers.Load() < t.bodies.Load() && t.arrived.Load()-t.read.Load()-t.allRead.Load() >= window/2
}

// DefaultWindow is the window of net/http's connections: how many bytes of bodies may be on their way to handlers.
const DefaultWindow = 1 << 20

// SetWindow sets the window of l's connections. It must be called before l is served.
func SetWindow(l *Listener, window int) { l.streams.window = int64(window) }

// taken returns how many bytes the client has taken, given what the kernel knows. Where it doesn't tell, those count that the kernel has.
func (t *traffic) taken(r kernel.Report) int64 {
	if r.AckedKnown {
		return int64(r.Acked)
	}
	return t.sent.Load()
}

// unknown is a mark that has not been set.
const unknown = -1

// isReceiving reports whether the client still receives its last response, at the default rate in the time since the last look.
// Closing would reset the connection, because the client sends frames meanwhile.
func (c *Conn) isReceiving(since time.Duration) bool {
	t, r := c.traffic(), c.Inspect()
	if t == nil || !r.Sending() {
		return false
	}
	now := t.taken(r)
	was := t.kept.Swap(now)
	return now < t.end.Load() && (was == unknown || float64(now-was) >= defaultBytesPerSecond*since.Seconds())
}

// isFlushing reports whether the server may still hold back the end of a response, so that an eviction or a drain would cut
// it. net/http reports that there's no stream just before it writes that. If the client has reset the last stream, it writes nothing.
func (c *Conn) isFlushing() bool {
	t := c.traffic()
	return t != nil && t.end.Load() == unknown && c.Conn.Idle() < time.Second
}

// A wait is the wait of a stream in one direction.
type wait struct {
	// What the connection had moved when the wait began, or when the tracker last looked for the rate, or for the silence.
	rate, silence atomic.Int64

	paid atomic.Int64 // how many bytes of this wait count already
}

func (w *wait) begin(moved int64) {
	w.rate.Store(moved)
	w.silence.Store(moved)
	w.paid.Store(0)
}

// left returns how many of n bytes that have moved in the wait don't count yet.
func (w *wait) left(n int) int { return max(n-int(w.paid.Load()), 0) }

// A Stream is a request of HTTP/2 and its response, as the handler sees them. Its limits count
// while the handler waits for its client: in a read of the body until the response has begun, and in a write of the response. A
// request that never waits isn't tracked.
//
// Methods about reading must not be called by two goroutines at once, nor methods about writing. A
// reader and a writer may run at the same time.
type Stream struct {
	conn *Conn
	cut  func(*idle.TimeoutError)

	traffic  *traffic
	in, out  wait
	reading  bool        // the reader's: it counts as a reader
	unread   atomic.Bool // its body isn't read to its end
	unwaited atomic.Bool // no limit of reading counts any more
	late     bool        // the handler's: it goes on after that has returned
	timeout  atomic.Pointer[idle.TimeoutError]

	track atomic.Pointer[idle.Conn] // nil until something may wait
	mu    sync.Mutex                // guards what follows, and is held while cut is called
	phase *idle.Phase               // its limits
	ended bool
}

// Init makes s, which must be zero, the Stream of a request that has arrived on c, with a body or without. When a limit passes, cut is
// called on a goroutine of its own. It must make reads of the body fail or, after a limit of writing or HandlerTimeout, reset
// the stream. It isn't called after Return.
func (s *Stream) Init(c *Conn, body bool, cut func(*idle.TimeoutError)) {
	s.conn, s.cut, s.traffic, s.phase = c, cut, c.traffic(), c.listener.phases[stream]
	if body {
		s.unread.Store(true)
		s.traffic.bodies.Add(1)
	}
	if c.LimitsHandler() {
		s.begin()
	}
}

// begin returns the idle.Conn of s, which it tracks from now on. It returns nil if nothing can be
// tracked any more.
func (s *Stream) begin() *idle.Conn {
	if c := s.track.Load(); c != nil {
		return c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beginLocked()
}

// beginLocked is begin while s.mu is held.
func (s *Stream) beginLocked() *idle.Conn {
	c := s.track.Load()
	if c != nil || s.ended {
		return c
	}
	c = new(idle.Conn)
	streams := &s.conn.listener.streams
	if streams.tracker.Track(c, s, &streams.hooks) != nil {
		return nil // it's closed
	}
	c.PauseRead() // nobody reads yet
	c.Enter(s.phase)
	s.track.Store(c)
	return c
}

// BeginRead reports that a read of the body begins. The caller must call EndRead.
func (s *Stream) BeginRead() {
	if s.unwaited.Load() {
		return
	}
	if c := s.begin(); c != nil {
		s.in.begin(s.traffic.arrived.Load())
		s.reading = true
		s.traffic.readers.Add(1)
		c.AwaitRead()
		if s.unwaited.Load() { // meanwhile
			c.PauseRead()
		}
	}
}

// EndRead reports the end of a read of n bytes, and whether it was the last. It returns the limit that has passed, if the
// handler must not get these bytes.
func (s *Stream) EndRead(n int, last bool) error {
	s.traffic.read.Add(int64(n))
	if last {
		s.endBody()
	}
	c := s.track.Load()
	if c == nil {
		return nil
	}
	if s.reading {
		s.reading = false
		s.traffic.readers.Add(-1)
	}
	if n > 0 {
		c.Received(s.in.left(n))
	}
	c.PauseRead()
	delivered := c.Deliver()
	if err := s.Timeout(); err != nil && (!delivered || IsOfReading(err)) {
		return err
	}
	if !delivered {
		return os.ErrDeadlineExceeded // it has just passed, and isn't known yet
	}
	return nil
}

// endBody reports that nothing of the body is left, or that nobody reads it any more.
func (s *Stream) endBody() {
	if s.unread.Swap(false) {
		s.traffic.bodies.Add(-1)
	}
}

// StopWaiting ends the limits of reading: the response has begun, so that client and handler may be in a conversation, or
// the handler has a deadline of its own.
func (s *Stream) StopWaiting() {
	if !s.unwaited.Swap(true) {
		if c := s.track.Load(); c != nil {
			c.PauseRead()
		}
	}
}

// BeginWrite reports that a part of the response is about to be written, and may have to wait for
// the client. The caller must call EndWrite.
func (s *Stream) BeginWrite() {
	if c := s.begin(); c != nil {
		s.out.begin(unknown) // to ask the kernel takes longer than most writes
		c.AwaitWrite()
	}
}

// EndWrite reports the end of that. n is how many bytes were written.
func (s *Stream) EndWrite(n int) {
	if c := s.track.Load(); c != nil {
		if n > 0 {
			c.Sent(s.out.left(n))
		}
		c.PauseWrite()
	}
}

// Timeout returns the limit that has passed, or nil.
func (s *Stream) Timeout() *idle.TimeoutError { return s.timeout.Load() }

// IsOfReading reports whether err is a limit of reading.
func IsOfReading(err *idle.TimeoutError) bool {
	return err != nil && (err.Reason == idle.ReasonRead || err.Reason == idle.ReasonMinReadRate)
}

// IsEighth reports whether eight handlers have asked this since the connection had no stream, or since the last of them that got yes.
func (s *Stream) IsEighth() bool { return s.traffic.asked.Add(1)%8 == 0 }

// EndWhen is called before the handler returns if the whole response will be written after that. The limits of writing count until
// closed tells that the stream is closed. If one passes, nothing can reset the stream, so the connection ends.
func (s *Stream) EndWhen(closed <-chan bool) {
	c := s.begin()
	if c == nil {
		return
	}
	s.mu.Lock()
	s.cut = func(err *idle.TimeoutError) { s.conn.End(err.Setting + " of a response") }
	s.mu.Unlock()
	s.late = true
	s.out.begin(unknown)
	c.AwaitWrite()
	go func() {
		<-closed
		s.end()
	}()
}

// Return is called when the handler has returned. After that no limit counts, unless EndWhen was called.
func (s *Stream) Return() {
	s.endBody()
	if !s.late {
		s.end()
	}
}

func (s *Stream) end() {
	s.mu.Lock()
	s.ended = true
	c := s.track.Load()
	s.mu.Unlock()
	if c != nil {
		c.Stop()
	}
}

// probe returns what the connection has moved meanwhile. As long as that's enough for the minimum rate, or for the default one
// if that's off, neither the rate nor the silence passes.
func (s *Stream) probe(about idle.Reason) (e idle.SocketState) {
	s.mu.Lock()
	p := s.phase.Policy()
	s.mu.Unlock()
	switch about {
	case idle.ReasonMinReadRate:
		e.UnreportedIn = s.arrivedSince(&s.in.rate, p.MinReadRate.BytesPerSecond, p.MinReadRate.Grace)
	case idle.ReasonMinWriteRate:
		e.Unreported = s.takenSince(&s.out.rate, p.MinWriteRate.BytesPerSecond, p.MinWriteRate.Grace)
	case idle.ReasonRead:
		rate := cmp.Or(p.MinReadRate.BytesPerSecond, defaultBytesPerSecond)
		if s.arrivedSince(&s.in.silence, rate, p.ReadTimeout) >= worth(rate, p.ReadTimeout) {
			e.In = 1 // just now
		}
	case idle.ReasonWrite:
		rate := cmp.Or(p.MinWriteRate.BytesPerSecond, defaultBytesPerSecond)
		if s.takenSince(&s.out.silence, rate, p.WriteTimeout) >= worth(rate, p.WriteTimeout) {
			e.Out = 1
		}
	}
	return e
}

// worth returns how many bytes a rate demands in the time d.
func worth(perSecond int, d time.Duration) int { return int(float64(perSecond) * d.Seconds()) }

// arrivedSince returns how many bytes have arrived since the last look, or what the rate demands if the client may not send.
func (s *Stream) arrivedSince(last *atomic.Int64, perSecond int, d time.Duration) int {
	t := s.traffic
	now := t.arrived.Load()
	n := int(now - last.Swap(now))
	if t.isShut(s.conn.listener.streams.window) {
		return max(n, worth(perSecond, d))
	}
	if last == &s.in.rate {
		s.in.paid.Add(int64(n))
	}
	return n
}

// takenSince returns how many bytes the client has taken since the last look. If this is the first, it returns what the rate
// demands if the client takes any, or the kernel has no room.
func (s *Stream) takenSince(last *atomic.Int64, perSecond int, d time.Duration) int {
	r := s.conn.Inspect()
	now := s.traffic.taken(r)
	was := last.Swap(now)
	if was == unknown {
		if s.conn.IsWriting() || r.Sending() {
			return worth(perSecond, d)
		}
		return 0
	}
	n := int(now - was)
	if last == &s.out.rate {
		s.out.paid.Add(int64(n))
	}
	return n
}

// onTimeout is asked before a limit ends s. A limit of reading ends the reads only, and the others count on.
func (s *Stream) onTimeout(err *idle.TimeoutError) (keep bool) {
	select {
	case <-s.conn.listener.tracker.Done(): // no limit counts any more
		return true
	default:
	}
	if s.conn.ask(err) {
		return true
	}
	if !IsOfReading(err) {
		return false
	}
	s.fail(err)
	s.StopWaiting()
	return true
}

// fail makes the request fail. The server's function for that may wait for others, and the tracker must not.
func (s *Stream) fail(err *idle.TimeoutError) {
	s.timeout.Store(err)
	s.conn.listener.counts.add(err)
	go func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.ended {
			s.cut(err)
		}
	}()
}

// SetLimits gives s limits of its own.
func (s *Stream) SetLimits(own httplimits.RequestLimits) error {
	l := s.conn.listener
	l.own.mu.Lock()
	defer l.own.mu.Unlock()
	phase, err := l.ownPhase(ownLimits{own, stream})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return errors.New("the request has ended; call SetLimits in its handler")
	}
	s.phase = phase
	if c := s.track.Load(); c != nil {
		c.Enter(phase)
	} else if phase.Policy().PhaseTimeout > 0 {
		s.beginLocked()
	}
	return nil
}

// sendGoAway tells the client of an HTTP/2 connection that it's ending and that no request that
// crosses this is executed, so the client may repeat it. There must be no stream. What the GOAWAY
// says about those before doesn't matter, because the client has their responses. net/http may be
// writing too, but without a stream it writes small frames, each of them whole.
func (c *Conn) sendGoAway() {
	const goAway = "\x00\x00\x08\x07\x00\x00\x00\x00\x00" + // RFC 9113, section 6.8
		"\x00\x00\x00\x00" + // the last stream
		"\x00\x00\x00\x00" // no error
	if !c.IsWriting() { // perhaps a frame, if the client has reset its last stream
		io.WriteString(c.writer(), goAway)
	}
}
