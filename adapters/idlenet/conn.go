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
	// What every Read needs comes first, up to the first flow of track, and then
	// what a Write needs: in aligned, a cache line for the one and most of the
	// other. By the time of the next request a server has none at hand any more.

	// Reports on a direction come from one goroutine at a time. The kernel
	// would have made the others wait anyway.
	writing sync.Mutex
	inner   net.Conn // held, not embedded: promoted methods would bypass track
	reading sync.Mutex

	marks atomic.Uint32

	// An operation that moved nothing has failed, most likely at a deadline of
	// the user's. If it is tried again, it is the same wait that goes on.
	// Guarded by reading, and by writing.
	readAgain, writeAgain bool

	track idle.Conn

	opts    *Options
	timeout atomic.Pointer[idle.TimeoutError]
	queued  atomic.Uint32 // see movedSince
	user    deadlines     // that the user has set
	ledger
}

// aligned is a Conn of a size of which the allocator puts each at the beginning
// of a cache line.
type aligned struct {
	Conn
	_ [24]byte
}

// Marks are what is rarely so of a Conn.
const (
	asking    = 1 << iota // OnTimeout is running, because it is idle
	refused               // OnTimeout did not want to keep it when last asked, as it was idle
	ended                 // it has timed out, and nothing is read any more
	expired               // nothing is written any more, either
	reaped                // it was closed because it had timed out
	ahead                 // reads are ahead of need: see ReadAhead
	rated                 // the phase has a least speed of reading
	small                 // steps are small
	lone                  // one goroutine at a time writes: see OneWriter
	sampled               // queued has been set, since a write last moved something
	counted               // what the peer takes is counted by the kernel, and credited by Probe
	uncounted             // it is not counted: the system does not tell
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

// Read reads from the connection, as net.Conn says.
func (c *Conn) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		n, err = c.inner.Read(b)
		return n, c.explain("read", err)
	}
	// No deferred calls: what surrounds the system call has to be small.
	c.reading.Lock()
	if c.marks.Load()&ahead == 0 && !c.readAgain {
		c.track.BeginRead()
	} else {
		c.beginRead()
	}
	if tcp, ok := c.inner.(*net.TCPConn); ok { // most are: spares a table of methods, and a call
		n, err = tcp.Read(b)
	} else {
		n, err = c.inner.Read(b)
	}
	if n > 0 && err == nil && c.marks.Load()&(ended|rated) == 0 && !c.readAgain {
		c.track.Touch()
	} else {
		n, err = c.received(n, err)
	}
	c.reading.Unlock()
	if err != nil {
		err = c.explain("read", err)
	}
	return n, err
}

// beginRead reports that a read begins. c.reading is held.
func (c *Conn) beginRead() {
	switch {
	case c.marks.Load()&ahead != 0:
	case c.readAgain:
		c.track.AwaitRead()
	default:
		c.track.BeginRead()
	}
}

// received reports what came of a read; that it is over is found out by asking
// Waiting. After EOF nothing will ever be owed, and what comes after a timeout
// is not read any more. c.reading is held.
func (c *Conn) received(n int, err error) (int, error) {
	for err == nil && c.marks.Load()&ended != 0 {
		n, err = c.inner.Read(make([]byte, 512)) // to nobody, until Expire
	}
	// The peer has heeded OnEnd, after which comes Expire; unless it is OnEnd itself
	// that reads, so not for ever.
	for i := 0; i < 1000 && err != nil && c.marks.Load()&(ended|expired) == ended; i++ {
		time.Sleep(time.Millisecond)
	}
	if n > 0 {
		c.track.Received(n)
	}
	if err != nil && errors.Is(err, io.EOF) {
		c.track.PauseRead()
	}
	c.readAgain = n == 0 && err != nil && c.marks.Load()&ahead == 0
	return n, err
}

// Write writes to the connection, as net.Conn says.
func (c *Conn) Write(b []byte) (n int, err error) {
	m := c.marks.Load()
	switch {
	case m&ended != 0: // a last word, of which nobody needs to know
		n, err = c.inner.Write(b)
		return n, c.explain("write", err)
	case m&lone == 0:
		c.writing.Lock()
		n, err = c.writeSteps(b)
		c.writing.Unlock()
		return n, err
	case m != lone|counted || len(b) > chunk || c.writeAgain:
		return c.writeSteps(b)
	}
	// What is left of it for the short writes of a lone writer. If one takes long,
	// the kernel will be asked what has moved when; so it can be noted here, where
	// all is at hand, that something did.
	c.track.BeginWrite()
	c.track.TouchOut()
	if tcp, ok := c.inner.(*net.TCPConn); ok {
		n, err = tcp.Write(b)
	} else {
		n, err = c.inner.Write(b)
	}
	if n == 0 || err != nil {
		c.sent(n, err)
		err = c.explain("write", err)
	}
	return n, err
}

// writeSteps writes b, a step at a time. c.writing is held, or there is but one
// writer.
func (c *Conn) writeSteps(b []byte) (int, error) {
	written, step := 0, c.step()
	for {
		c.beginWrite()
		n, err := c.inner.Write(b[written:min(written+step, len(b))])
		written += n
		c.sent(n, err)
		if err != nil {
			return written, c.explain("write", err)
		}
		if written >= len(b) {
			return written, nil
		}
	}
}

// beginWrite reports that a write begins. c.writing is held.
func (c *Conn) beginWrite() {
	if c.writeAgain {
		c.track.AwaitWrite()
	} else {
		c.track.BeginWrite()
	}
}

// sent reports what came of a write. c.writing is held.
func (c *Conn) sent(n int, err error) {
	if n > 0 {
		switch m := c.marks.Load(); {
		case m&asking != 0:
		case m&counted != 0:
			c.track.TouchOut()
		default:
			c.track.Sent(n)
		}
		if c.marks.Load()&sampled != 0 {
			c.queued.Store(0)
			c.marks.And(^uint32(sampled))
		}
		c.writeAgain = false
	} else {
		c.writeAgain = err != nil
	}
}

// Close closes the connection and ends its tracking. It returns nil if the
// connection was closed meanwhile because it had timed out.
func (c *Conn) Close() error {
	c.track.Close()
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
	timeout := c.timeout.Load()
	switch {
	case timeout == nil:
		return err
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
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
func (c *Conn) Timeout() *idle.TimeoutError { return c.timeout.Load() }

// Enter puts the connection under another phase of its tracker; see
// [idle.Conn.Enter]. It panics if the phase pings and Options.Ping is nil.
func (c *Conn) Enter(p *idle.Phase) {
	if c.opts.Ping == nil {
		if err := c.opts.allow(p.Policy()); err != nil {
			panic(err.Error())
		}
	}
	c.prepare(p.Policy())
	c.track.Enter(p)
}

// prepare makes c ready for what p limits.
func (c *Conn) prepare(p idle.Policy) {
	if p.MinWriteRate.BytesPerSecond > 0 {
		c.openLedger()
	}
	switch has := c.marks.Load()&rated != 0; {
	case p.MinReadRate.BytesPerSecond > 0:
		c.marks.Or(rated)
	case has:
		c.marks.And(^uint32(rated))
	}
}

// ReadAhead says whether reads from now on are ahead of need, made only to learn
// of input, or of the end, as early as can be. Then nothing is awaited of the
// peer, whatever read is waiting: ReadTimeout and MinReadRate stand still.
func (c *Conn) ReadAhead(on bool) {
	if on {
		c.marks.Or(ahead)
	} else {
		c.marks.And(^uint32(ahead))
	}
}

// OneWriter says whether no two goroutines write at once from now on, which saves
// a locked instruction or two a write. Where the system does not tell how much
// of what was written is still to be taken by the peer it changes nothing. It
// must be called when nobody writes.
func (c *Conn) OneWriter(on bool) {
	if on && (c.marks.Load()&counted != 0 || c.ask().Tallied) {
		c.marks.Or(lone)
	} else {
		c.marks.And(^uint32(lone))
	}
}

// Beat records a beat of the peer, for policies with a passive Heartbeat.
func (c *Conn) Beat() { c.track.Beat() }

// LocalAddr returns the local address.
func (c *Conn) LocalAddr() net.Addr { return c.inner.LocalAddr() }

// RemoteAddr returns the peer's address, of the type that the wrapped
// connection has it in.
func (c *Conn) RemoteAddr() net.Addr { return c.inner.RemoteAddr() }
