package idlenet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// Conn is a net.Conn with timeouts. Like those of every net.Conn its methods
// may be called by several goroutines at once. Deadlines set by its user keep
// their meaning, beside those of the policy.
type Conn struct {
	// What Reads and Writes need comes first, up to the flows of track. By the time
	// of the next request a server has none of it at hand any more.

	inner net.Conn // held, not embedded: promoted methods would bypass track
	marks atomic.Uint32

	// Reports on a direction come from one goroutine at a time, and so do reads and
	// writes, as a [kernel.Stream] has it. The kernel would have made the others
	// wait anyway.
	reading, writing sync.Mutex

	track idle.Conn
	setup *Setup

	later  atomic.Pointer[later] // nil for most
	queued atomic.Uint32         // see movedSince
	user   deadlines             // that the user has set
	lapses atomic.Pointer[lapses]
	ledger
}

// Marks are flags for uncommon states. They share one word, so that the common case
// is a single load.
const (
	asking    = 1 << iota // OnTimeout is running, because it is idle
	refused               // OnTimeout did not want to keep it when last asked, as it was idle
	ended                 // it has timed out, and nothing is read any more
	expired               // nothing is written any more, either, or it is closed
	reaped                // it was closed because it had timed out
	shut                  // it was closed for that at once, as it takes no deadlines
	ahead                 // reads are ahead of need: see ReadAhead
	ledgered              // the ledger is open
	small                 // steps are small
	tells                 // inner tells when a write has to wait
	sampled               // queued has been set, since a write last moved something
	counted               // what the peer takes is counted by the kernel, and credited by examine
	retracked             // track was replaced: see Track

	// The last read, or write, has moved nothing until a deadline of the user's. If it
	// is tried again, the same wait goes on: see lapses.
	readLapsed
	writeLapsed

	// Track has found a read, or write, under way, and has it taken for a wait: see
	// adopt.
	readAdopted
	writeAdopted
)

// A large write, or copy, is done in steps, between which its progress is
// recorded. Within one, only the kernel sees it; where it does not tell, steps
// have to be small enough for a slow reader to get through one in time.
const (
	chunk = 128 << 10
	crumb = 16 << 10
)

// step returns how much is written at once.
func (c *Conn) step() int {
	if c.marks.Load()&small != 0 {
		return crumb
	}
	return chunk
}

// lapses are the waits that have lapsed. Whoever holds reading, or writing, has its own.
type lapses struct{ read, write idle.Wait }

// lapsed returns the lapses of c, which few connections have.
func (c *Conn) lapsed() *lapses {
	if c.lapses.Load() == nil {
		c.lapses.CompareAndSwap(nil, new(lapses))
	}
	return c.lapses.Load()
}

// lapse marks a wait as lapsed, and returns it. One of which the mark was not set is a
// wait of its own.
func (c *Conn) lapse(w *idle.Wait, marks, lapsed uint32) *idle.Wait {
	if marks&lapsed == 0 {
		*w = idle.Wait{}
		c.marks.Or(lapsed)
	}
	return w
}

// Read reads from the connection, as net.Conn says.
func (c *Conn) Read(b []byte) (n int, err error) {
	c.reading.Lock()
	c.beginRead()
	n, err = c.inner.Read(b)
	n, err = c.received(n, err)
	c.doneReading()
	return n, c.explain("read", err)
}

// beginRead reports that a read begins. Nobody else reads.
func (c *Conn) beginRead() {
	m := c.marks.Load()
	if m&ahead != 0 {
		return
	}
	if track := c.trackedBy(m); m&readLapsed != 0 {
		track.ResumeRead(&c.lapsed().read)
	} else {
		track.AwaitRead()
	}
	if c.marks.Load()&ahead != 0 { // ReadAhead came in between
		c.trackedBy(m).PauseRead()
	}
}

// received reports what came of a read. After a timeout nothing is read any more.
// Nobody else reads.
func (c *Conn) received(n int, err error) (int, error) {
	m := c.marks.Load()
	if m&ended != 0 {
		n, err = c.discard(n, err)
	}
	track := c.trackedBy(m)
	if n > 0 {
		track.Received(n)
	}
	if n <= 0 && m&(ahead|expired) == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		track.SuspendRead(c.lapse(&c.lapsed().read, m, readLapsed))
		return n, err
	}
	track.PauseRead()
	if m&readLapsed != 0 {
		c.marks.And(^uint32(readLapsed))
	}
	return n, err
}

// discard is what becomes of a read after a timeout.
func (c *Conn) discard(n int, err error) (int, error) {
	for err == nil && c.marks.Load()&ended != 0 {
		n, err = c.inner.Read(make([]byte, 512)) // to nobody, until Expire
	}
	// The peer has heeded OnEnd, after which comes Expire; unless it is OnEnd itself
	// that reads, so not for ever.
	for i := 0; i < 1000 && errors.Is(err, io.EOF) && c.marks.Load()&(ended|expired) == ended; i++ {
		time.Sleep(time.Millisecond)
	}
	return n, err
}

// Write writes to the connection, as net.Conn says.
func (c *Conn) Write(b []byte) (written int, err error) {
	c.writing.Lock()
	for step := c.step(); ; {
		c.beginWrite(tells)
		var n int
		n, err = c.inner.Write(b[written:min(written+step, len(b))])
		c.sent(n, err)
		written += n
		if err != nil || written >= len(b) {
			break
		}
	}
	c.doneWriting()
	return written, c.explain("write", err)
}

// beginWrite reports that a write begins, unless c has a mark by which it will be
// told when that has to wait. Nobody else writes.
func (c *Conn) beginWrite(unless uint32) {
	m := c.marks.Load()
	switch {
	case m&writeLapsed != 0:
		c.trackedBy(m).ResumeWrite(&c.lapsed().write)
	case m&unless == 0:
		c.trackedBy(m).AwaitWrite()
	}
}

// sent reports what came of a write. Nobody else writes.
func (c *Conn) sent(n int, err error) {
	m := c.marks.Load()
	track := c.trackedBy(m)
	switch {
	case n <= 0 && m&expired == 0 && errors.Is(err, os.ErrDeadlineExceeded):
		track.SuspendWrite(c.lapse(&c.lapsed().write, m, writeLapsed))
		return
	case n <= 0, m&asking != 0: // a farewell of OnTimeout is no sign of life
	case m&counted != 0:
		track.TouchOut()
	default:
		track.Sent(n)
	}
	track.PauseWrite()
	if m&writeLapsed != 0 {
		c.marks.And(^uint32(writeLapsed))
	}
	if m&sampled != 0 {
		c.queued.Store(0)
		c.mark(sampled, false)
	}
}

// writer is a Conn as the system's sockets tell it of writes that wait.
type writer Conn

// WriteWaits implements [kernel.Waiter].
func (w *writer) WriteWaits(queued uint64, moved bool) {
	c := (*Conn)(w)
	track := c.trackedBy(c.marks.Load())
	if moved && c.marks.Load()&asking == 0 {
		track.TouchOut()
	}
	if queued > 0 {
		c.queued.Store(uint32(queued))
		c.mark(sampled, true)
	}
	track.AwaitWrite()
}

// mark sets or clears a mark. Most often it is as it should be.
func (c *Conn) mark(m uint32, on bool) {
	switch has := c.marks.Load()&m != 0; {
	case on && !has:
		c.marks.Or(m)
	case has && !on:
		c.marks.And(^m)
	}
}

// Close closes the connection and ends its tracking. It returns nil if the
// connection was closed meanwhile because it had timed out.
func (c *Conn) Close() error {
	track := c.tracking()
	track.Close()
	c.marks.Or(expired) // for a read that waits to become so
	if again := c.tracking(); again != track {
		again.Close() // of a Track that has not seen the mark
	}
	err := c.inner.Close()
	if c.marks.Load()&reaped != 0 && errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// explain returns the timeout if that is what has made an operation fail.
func (c *Conn) explain(op string, err error) error {
	if err == nil {
		return nil
	}
	timeout := c.Timeout()
	switch {
	case timeout == nil:
		return err
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed), c.marks.Load()&(shut|reaped) != 0:
	case errors.Is(err, io.EOF) && c.marks.Load()&expired != 0: // the peer has heeded OnEnd
	default:
		return err
	}
	explained := &net.OpError{Op: op, Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: timeout}
	if explained.Addr != nil {
		explained.Net = explained.Addr.Network()
	}
	return explained
}

// Timeout returns the limit that the connection has passed, nil while it has
// passed none.
func (c *Conn) Timeout() *idle.TimeoutError {
	if l := c.later.Load(); l != nil {
		return l.timeout
	}
	return nil
}

// Enter puts the connection under another phase of its tracker; see
// [idle.Conn.Enter]. It panics if p is nil, if it pings and Options.Ping is nil, or if
// it is another tracker's.
func (c *Conn) Enter(p *idle.Phase) {
	if p == nil {
		panic("idlenet: Enter(nil); did Phase return an error?")
	}
	c.prepare(p.Policy())
	c.trackedBy(c.marks.Load()).Enter(p)
}

// prepare makes c ready for what p limits.
func (c *Conn) prepare(p idle.Policy) {
	if p.MinWriteRate.BytesPerSecond > 0 {
		c.openLedger()
	}
}

// ReadAhead says whether reads from now on are ahead of need, made only to learn
// of input, or of the end, as early as can be. Then nothing is awaited of the
// peer, whatever read is waiting: ReadTimeout and MinReadRate stand still. Once it is
// off, the next read counts.
func (c *Conn) ReadAhead(on bool) {
	c.mark(ahead, on)
	if on {
		c.trackedBy(c.marks.Load()).PauseRead()
	}
}

// Beat records a beat of the peer, for policies with a passive Heartbeat.
func (c *Conn) Beat() { c.trackedBy(c.marks.Load()).Beat() }

// LocalAddr returns the local address.
func (c *Conn) LocalAddr() net.Addr { return c.inner.LocalAddr() }

// RemoteAddr returns the peer's address, of the type that the wrapped
// connection has it in.
func (c *Conn) RemoteAddr() net.Addr { return c.inner.RemoteAddr() }
