package idle

import "time"

// A Wait is what an owner keeps of a wait that was interrupted: see
// [Conn.SuspendRead]. The zero Wait is none.
type Wait struct {
	lasted time.Duration // no longer than it has
	until  uint32        // when it was suspended

	// If it was resumed: by which clock, when a wait without the interruptions would
	// have begun, and the stamp by which the flow knows that.
	clock *clock
	begun time.Duration
	stamp uint32
}

// SuspendRead is [Conn.PauseRead] for a wait that may go on, with [Conn.ResumeRead].
// It is for reads that end without a byte at a deadline of the user's, and may be
// tried again. w must be zero, or what that was called with when the wait went on.
func (c *Conn) SuspendRead(w *Wait) { c.suspend(&c.in, w) }

// ResumeRead is [Conn.AwaitRead] for a wait that was suspended: ReadTimeout goes on
// where it was, unless another phase was entered since, or something arrived, or the
// interruption was longer than the limit.
func (c *Conn) ResumeRead(w *Wait) { c.resume(&c.in, w) }

// SuspendWrite is to [Conn.PauseWrite] what [Conn.SuspendRead] is to PauseRead.
func (c *Conn) SuspendWrite(w *Wait) { c.suspend(&c.out, w) }

// ResumeWrite is to [Conn.AwaitWrite] what [Conn.ResumeRead] is to AwaitRead.
func (c *Conn) ResumeWrite(w *Wait) { c.resume(&c.out, w) }

// suspend ends a wait on f, if there is one, and notes how long it has lasted. That is
// exact from the first resumption on, or many short waits would add up to nothing.
func (c *Conn) suspend(f *flow, w *Wait) {
	wait := f.wait.Load()
	if wait&waiting == 0 {
		*w = Wait{}
		return
	}
	k := c.lane.clock
	m := k.moment()
	since, last := m.now-int64(ago(wait, uint32(m.now))), m.tick(f.stamp.Load())
	begun := time.Duration(k.end(max(since, last))) * k.tick
	if w.clock == k && wait == w.stamp<<1|waiting && last < since && int32(w.stamp-c.began.Load()) > 0 {
		begun = w.begun
	}
	*w = Wait{lasted: max(0, m.elapsed-begun), until: c.lane.stamp()}
	c.pause(f)
}

// resume begins a wait that has lasted for a while, though no longer than the phase.
func (c *Conn) resume(f *flow, w *Wait) {
	if f.waits() {
		return
	}
	k := c.lane.clock
	d := c.direction(f)
	now, at := c.lane.instant(d.counted != 0)
	began, last := c.began.Load(), f.stamp.Load()
	if int32(began-w.until) >= 0 || int32(last-w.until) >= 0 || int64(ago(f.wait.Load(), now)) > int64(d.soonest) {
		w.lasted = 0
	}
	w.clock, w.begun = k, k.elapsed()-min(w.lasted, maxTicks*k.tick)
	// The wait counts from the end of the tick of its stamp, which is not before begun.
	w.stamp = stampOf(int64((w.begun+k.tick-1)/k.tick) - 1)
	if int32(w.stamp-began) < 0 {
		w.stamp = began
	}
	if int32(w.stamp-now) > 0 {
		w.stamp = now
	}
	if c.startWait(f, w.stamp, at) {
		// Enter, on another goroutine, raises began and then begins the wait. So either
		// it has seen the wait, or its stamp is seen here.
		f.rewait(c.began.Load())
	}
}
