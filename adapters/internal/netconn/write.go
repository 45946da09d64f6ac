package netconn

import (
	"errors"
	"net"
	"os"
	"strings"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// How the limits of writing see a peer that reads.
//
// A write waits from the moment when it finds no room in the kernel's send buffer. If the kernel
// doesn't tell when that is, it waits from its beginning.
//
// Bytes that merely wait in the kernel don't give a slow reader more time. So a minimum write rate
// counts the bytes that have left the kernel: those written, less those queued. drained is that number
// at the last look. Each look reports how much it has grown.
//
// We look when a write begins to wait, whenever the rate is checked, and at the end of the write. So
// bytes that leave while no write waits don't count, and neither does that time. Where the kernel
// doesn't tell when a write waits, all bytes count that leave after the first look in the phase.
//
// Where the kernel doesn't report how many bytes are queued, each step of a write counts as soon as
// the kernel has accepted it.

// A large write or copy is made in steps, and its progress is reported after each. Within a step
// only the kernel sees progress. If the kernel doesn't report it, steps must be small enough for
// a slow reader to read one in time.
const (
	largeStep = 128 << 10
	smallStep = 16 << 10
)

// Write writes to the connection as described for net.Conn.
func (c *Conn) Write(b []byte) (written int, err error) {
	c.lock(&c.writing)
	for {
		step := b[written:]
		if len(step) > smallStep {
			step = step[:min(len(step), c.step(len(step)))]
		}
		before := c.total
		if c.flags.Load()&notifies == 0 { // otherwise WriteWaits will be called if it has to wait
			c.mayWait(len(step))
		}
		var n int
		n, err = c.inner.Write(step)
		c.endWrite(before, n, err)
		written += n
		if err != nil || written >= len(b) {
			break
		}
	}
	c.unlock(&c.writing)
	return written, c.explain("write", err)
}

// step returns how many bytes of n are written at once. What isn't known to be a stream may carry
// messages, which must not be divided.
func (c *Conn) step(n int) int {
	var at interface{ LocalAddr() net.Addr } = c.inner
	if socket, ok := kernel.SocketUnder(c.inner).(interface{ LocalAddr() net.Addr }); ok {
		at = socket // of a wrapper, it may block
	}
	network := ""
	if addr := at.LocalAddr(); addr != nil {
		network = addr.Network()
	}
	switch isTCP := strings.HasPrefix(network, "tcp"); {
	case isTCP && c.flags.Load()&counts != 0:
		return largeStep
	case isTCP || network == "unix" || network == "pipe":
		return smallStep
	}
	return n
}

// mayWait reports that a write of n bytes may have to wait. c.writing must be held.
func (c *Conn) mayWait(n int) {
	c.awaitWrite()
	c.addTotal(n) // as if all were written, because the kernel may have any number of them from now on
}

func (c *Conn) addTotal(n int) {
	c.total += uint32(n)
	if c.flags.Load()&counts != 0 { // otherwise nobody asks
		c.written.Store(c.total)
	}
}

// endWrite reports that n bytes were written. c.writing must be held.
func (c *Conn) endWrite(before uint32, n int, err error) {
	c.total = before + uint32(n)
	m := c.flags.Load()
	if m&sampled != 0 || m&(counts|notifies) == counts {
		c.written.Store(c.total)
	}
	switch {
	case n <= 0 && isDeadline(err):
		return // the wait goes on
	case n <= 0, m&asking != 0: // OnTimeout's farewell does not count as activity
	case m&counts != 0:
		c.track.TouchOut()
	default:
		c.track.Sent(n)
	}
	if ends := m&notifies != 0; m&sampled != 0 && (ends || c.total-c.drained.Load() > mostAhead) {
		if left := c.look(c.total, kernel.Queued(c.inner)); left > 0 && m&asking == 0 {
			c.track.Sent(left)
		}
		if ends {
			c.flags.And(^uint32(sampled))
		}
	}
	c.track.PauseWrite()
}

// isDeadline reports whether err says that a deadline has passed. Until the connection has timed out,
// that's the user's own. Not all connections return os.ErrDeadlineExceeded.
//
// errors.As would do the same by reflection, for which the goroutine's stack has to grow: 4 µs for each
// connection that times out.
func isDeadline(err error) bool {
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return err != nil
	}
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// writer is a Conn as a kernel.Waiter.
type writer Conn

// WriteWaits implements [kernel.Waiter].
func (w *writer) WriteWaits(n int) {
	c := (*Conn)(w)
	if n > 0 && c.flags.Load()&asking == 0 {
		c.track.TouchOut()
	}
	c.addTotal(n)
	c.awaitWrite()
}

// awaitWrite reports that a write waits, or may wait. c.writing must be held.
func (c *Conn) awaitWrite() {
	if m := c.flags.Load(); m&(counts|notifies|sampled) == counts|notifies {
		c.written.Store(c.total)
		c.drained.Store(c.total - uint32(kernel.Queued(c.inner)))
		c.flags.Or(sampled) // only now, or examine would report what has left before
	}
	c.track.AwaitWrite()
}

// mostAhead is how many bytes may leave between two looks. A difference of 2³¹ couldn't be told from
// a negative one.
const mostAhead = 1 << 30

// look returns how many bytes have left the kernel since the last look. written is how many were
// written, and queued how many are there.
func (c *Conn) look(written uint32, queued uint64) int {
	now := written - uint32(queued)
	for {
		was := c.drained.Load()
		if int32(now-was) <= 0 { // or the kernel has bytes that the writer hasn't counted yet
			return 0
		}
		if c.drained.CompareAndSwap(was, now) {
			return int(now - was)
		}
	}
}

// examine returns what the kernel knows about the connection, which seems to have passed the
// given limit.
func (c *Conn) examine(about idle.Reason) idle.SocketState {
	written := c.written.Load() // before Inspect, or bytes that are written meanwhile would seem to have left
	r := c.Inspect()
	e := r.Evidence()
	ofRate := about == idle.ReasonMinWriteRate
	m := c.flags.Load() // after Inspect, see awaitWrite
	switch {
	case m&counts == 0 || m&(notifies|sampled) == notifies:
	case !r.QueuedKnown:
		if ofRate { // it seemed to count, but doesn't
			c.flags.And(^uint32(counts | sampled))
			e.NotWriting = true
		}
	case m&sampled == 0: // the first look in this phase: the rate counts from now
		c.drained.Store(written - uint32(r.Queued))
		c.flags.Or(sampled)
		e.NotWriting = ofRate
		if r.Out == 0 { // it isn't known when
			e.Out = 1
		}
	default:
		e.Unreported = c.look(written, r.Queued)
		if e.Unreported > 0 && r.Out == 0 { // it isn't known when
			e.Out = 1
		}
		if _, unix := c.bare().(*net.UnixConn); ofRate && unix && m&advanced == 0 {
			c.flags.Or(advanced)
			e.Unreported += smallStep // in advance: the kernel frees a step only when the peer has read all of it
		}
	}
	return e
}

// AwaitAcked reports whether the kernel holds bytes that the peer has not acknowledged, or
// a write is under way. Such bytes count as a write that waits until the next write, or
// until the peer has acknowledged them, so the limits of writing apply. It is for servers
// whose small writes never wait, because the kernel has room for them.
func (c *Conn) AwaitAcked() bool {
	if !c.writing.tryLock() {
		return true
	}
	defer c.unlock(&c.writing)
	if r := c.Inspect(); r.Queued == 0 {
		return false
	}
	c.awaitWrite()
	return true
}

// IsReading reports whether a Read is under way.
func (c *Conn) IsReading() bool { return c.reading.isHeld() }

// IsWriting reports whether a Write is under way.
func (c *Conn) IsWriting() bool { return c.writing.isHeld() }

// Inspect asks the kernel about the connection.
func (c *Conn) Inspect() kernel.Report { return kernel.InspectConn(c.inner) }
