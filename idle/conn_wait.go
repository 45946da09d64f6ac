package idle

import (
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// A Wait records a wait that was interrupted; see [Conn.SuspendRead]. The zero
// Wait records none.
type Wait struct {
	lasted time.Duration // how long the wait has lasted, or less
	until  clock.Stamp   // when it was suspended

	// Set by a resumption: the clock, the time at which an uninterrupted wait of
	// this length would have begun, and that time as a stamp in the flow.
	clock *clock.Clock
	begun time.Duration
	stamp clock.Stamp
}

// SuspendRead is [Conn.PauseRead] for a wait that may go on later, with [Conn.ResumeRead]. It's
// for reads that fail at the user's deadline without having read a byte, and may be tried again.
// For a new wait, *w must be zero. For a wait that goes on, w is the one that was passed to its ResumeRead.
func (c *Conn) SuspendRead(w *Wait) { c.suspend(&c.in, keptIn, w) }

// ResumeRead is [Conn.AwaitRead] for a wait that was suspended. ReadTimeout continues from where
// it was. It starts over if another phase was entered meanwhile, if something has arrived, if
// OnTimeout has kept the connection, or if the interruption was longer than the limit.
func (c *Conn) ResumeRead(w *Wait) { c.resume(&c.in, keptIn, w) }

// SuspendWrite is [Conn.SuspendRead] for writes: it is [Conn.PauseWrite] for
// a wait that may go on later.
func (c *Conn) SuspendWrite(w *Wait) { c.suspend(&c.out, keptOut, w) }

// ResumeWrite is [Conn.ResumeRead] for writes: it is [Conn.AwaitWrite] for
// a wait that was suspended.
func (c *Conn) ResumeWrite(w *Wait) { c.resume(&c.out, keptOut, w) }

// suspend ends the wait on f, if there is one, and records in w how long it has lasted. From the
// first resumption on, w has the exact time. Otherwise many short waits would be rounded down to
// nothing.
func (c *Conn) suspend(f *flow, kept uint32, w *Wait) {
	c.state.drop(kept) // OnTimeout has kept the connection before this wait
	wait := f.wait.Load()
	if wait&waiting == 0 {
		*w = Wait{}
		return
	}
	k := c.shard.clock
	m := k.Moment()
	since, last := m.Now-int64(ago(wait, uint32(m.Now))), m.Tick(c.last(f))
	begun := time.Duration(k.End(max(since, last))) * k.Tick
	if w.clock == k && wait == wordOf(w.stamp)|waiting && last < since && w.stamp.Sub(c.began.Load()) > 0 {
		begun = w.begun
	}
	*w = Wait{lasted: max(0, m.Elapsed-begun), until: c.shard.stamp()}
	if c.pause(f) != wait { // it has just been restarted
		w.lasted = 0
	}
}

// resume starts a wait that has already lasted for a while, but at most as long as the phase.
func (c *Conn) resume(f *flow, kept uint32, w *Wait) {
	if f.waits() {
		return
	}
	k := c.shard.clock
	d := c.direction(f)
	now, at := c.shard.instant(d.counted != 0)
	began, last := c.began.Load(), c.last(f)
	if began.Sub(w.until) >= 0 || last.Sub(w.until) >= 0 || int64(ago(f.wait.Load(), now.Bits())) > int64(d.silence) {
		w.lasted = 0
	}
	w.clock, w.begun = k, k.Elapsed()-min(w.lasted, clock.MaxTicks*k.Tick)
	// A wait counts from the end of its stamp's tick, and that must not be before
	// begun.
	w.stamp = clock.StampOf(int64((w.begun+k.Tick-1)/k.Tick) - 1)
	if w.stamp.Sub(began) < 0 {
		w.stamp = began
	}
	if w.stamp.Sub(now) > 0 {
		w.stamp = now
	}
	if c.startWait(f, w.stamp, at) {
		// Enter may run at the same time:
		//
		//	reader: stores the wait, then loads began
		//	Enter:  raises began, then restarts the wait
		//
		// So Enter sees the wait, or its stamp is seen here.
		f.rewait(c.began.Load())
		if c.state.drop(kept) { // see restartWait
			f.rewait(c.shard.stamp())
		}
	}
}
