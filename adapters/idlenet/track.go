package idlenet

import (
	"errors"
	"net"

	"github.com/idlewheel/idlewheel/idle"
)

// Untrack ends the timeouts of a connection that stays open, and reports whether it
// had any: false if it has timed out, was closed, or is not tracked. The tracker
// counts it as gone, calls none of the Options for it any more, and does not refer
// to it, so that a connection that is forgotten can be collected. (A callback that
// has begun may still be running.) The connection works as before; Track gives it
// timeouts again.
//
// It is for a connection that is handed over to somebody else, or for as long as
// nothing is to be expected of it. To lift the limits for a while and keep the
// count, the age and the callbacks, enter a phase without limits.
func (c *Conn) Untrack() bool {
	// If the driver times it out between the two, its reads and writes fail as
	// always, but nobody closes it if its user does not.
	track := c.tracking()
	return track.Live() && track.Close()
}

// Track puts a connection that is not tracked under the policy of t, as if it had
// just been accepted; its age counts from now. It may be called while the
// connection is read and written. It fails with idle.ErrTracked if the connection
// is tracked: [Conn.Untrack] it first, or [Conn.Enter] another phase of its tracker.
// It fails with the limit if the connection has timed out, with net.ErrClosed if
// it is closed, and with what [WrapConn] says of t.
func (c *Conn) Track(t *idle.Tracker) error {
	if t == nil {
		return errNoTracker
	}
	was := c.later.Load()
	switch now := was.tracking(c); {
	case c.marks.Load()&expired != 0:
		return c.over()
	case now.Live():
		return idle.ErrTracked
	case now.Ending():
		return errEnding
	}
	// The new tracking has a state of its own. A Read that is under way may still
	// report to the old state, and with a stamp of the old tracker's clock.
	track := new(idle.Conn)
	if err := t.Track(track, c, &c.setup.hooks); err != nil {
		return err
	}
	c.claim(c.report().Acked) // what the peer has taken meanwhile pays for nothing
	next := &later{track: track}
	if !c.later.CompareAndSwap(was, next) { // a timeout at once, or another Track
		track.Close()
		return c.over()
	}
	c.marks.Or(retracked)
	c.prepare(t.Policy())
	c.adopt(track)
	// Close, on another goroutine, marks expired and then looks for a new state. So
	// either Close has seen this one and closed it, or its mark is seen here.
	if c.marks.Load()&expired != 0 && track.Close() {
		return c.over()
	}
	return nil
}

// adopt has a read and a write count that are under way. They have begun before track
// took its place, and report to it that they end, or to the state before:
//
//	reader: looks by what it is tracked, to report that the read has ended
//	Track:  puts another state in its place, in which reads wait
//	reader: reports to the state before
//
// So whoever is done with a read or write looks whether it was adopted, after the
// unlocking, and the mark is set before the lock is tried.
func (c *Conn) adopt(track *idle.Conn) {
	c.marks.Or(readAdopted) // reads wait when tracking begins
	if c.writing.TryLock() {
		c.writing.Unlock()
	} else {
		track.AwaitWrite()
		c.marks.Or(writeAdopted)
	}
	c.release()
}

// release ends the waits of adopted reads and writes that are not under way.
func (c *Conn) release() {
	for c.marks.Load()&readAdopted != 0 && c.reading.TryLock() {
		c.marks.And(^uint32(readAdopted))
		c.tracking().PauseRead()
		c.reading.Unlock()
	}
	for c.marks.Load()&writeAdopted != 0 && c.writing.TryLock() {
		c.marks.And(^uint32(writeAdopted))
		c.tracking().PauseWrite()
		c.writing.Unlock()
	}
}

// doneReading unlocks what a read has locked.
func (c *Conn) doneReading() {
	c.reading.Unlock()
	if c.marks.Load()&(readAdopted|writeAdopted) != 0 {
		c.release()
	}
}

// doneWriting is doneReading for a write.
func (c *Conn) doneWriting() {
	c.writing.Unlock()
	if c.marks.Load()&(readAdopted|writeAdopted) != 0 {
		c.release()
	}
}

// errEnding is returned while the callbacks of a timeout run.
var errEnding = errors.New("idlenet: the connection is timing out")

// over returns why a connection cannot be tracked any more.
func (c *Conn) over() error {
	if timeout := c.Timeout(); timeout != nil {
		return timeout
	}
	if c.marks.Load()&expired == 0 {
		return idle.ErrTracked // by another goroutine
	}
	return net.ErrClosed
}

// later is what few connections come to have.
type later struct {
	timeout *idle.TimeoutError // the limit that was passed
	track   *idle.Conn         // what took the place of Conn.track
}

// tracking returns the state by which c is tracked, or was last.
func (l *later) tracking(c *Conn) *idle.Conn {
	if l == nil || l.track == nil {
		return &c.track
	}
	return l.track
}

func (c *Conn) tracking() *idle.Conn { return c.later.Load().tracking(c) }

// trackedBy is tracking for a connection with the given marks, by which most need
// not look at later.
func (c *Conn) trackedBy(marks uint32) *idle.Conn {
	if marks&retracked == 0 {
		return &c.track
	}
	return c.tracking()
}

// timedOut notes the limit that was passed.
func (c *Conn) timedOut(err *idle.TimeoutError) {
	for {
		was := c.later.Load()
		next := &later{timeout: err}
		if was != nil {
			next.track = was.track
		}
		if c.later.CompareAndSwap(was, next) {
			return
		}
	}
}
