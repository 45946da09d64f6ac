package idle

// Conn is the state of a tracked connection: all that its deadlines are computed from,
// in 112 bytes on 64-bit systems. Embed it in the connection's own type. The zero value
// is ready for [Tracker.Track] or [Shard.Track]; until then no other method may be
// called. It must not be copied.
//
// Methods that report activity never block or allocate, and after the connection
// has ended they do nothing of consequence. They lock only if they bring a deadline
// forward. Those about reading must not be called by two goroutines at once, nor
// those about writing; a reader, a writer and everything else may run at the same
// time. All methods of a connection on a loop-driven [Shard] must be called on its
// loop.
type Conn struct {
	lane *lane // with the words of the entry it is one cache line, which is all that an activity needs
	entry
	owner any
	hooks *Hooks
}

// Touch records that something arrived. It may be called by any number of
// goroutines at once.
func (c *Conn) Touch() {
	if c.lane.now.Load() != c.in.stamp.Load() {
		c.touchSlow()
	}
}

// arrived is the slow path of Touch. Touch can be inlined only if this is not; CI
// sees to it that it is.
//
//go:noinline
func (c *Conn) touchSlow() { c.lane.restamp(&c.entry, &c.in.stamp, c.lane.stamp()) }

// Received records that n bytes arrived; 0 is the same as [Conn.Touch].
func (c *Conn) Received(n int) {
	c.Touch()
	if p := c.phase.Load(); p.in.perByte != 0 {
		c.lane.pay(&c.in, c.in.price(n, p.in.perByte, c.in.stamp.Load()))
	}
}

// TouchOut is [Conn.Sent] of bytes that need not be counted: of none, or of
// those that [Evidence] will tell of.
func (c *Conn) TouchOut() {
	if c.lane.now.Load() != c.out.stamp.Load() {
		c.touchOutSlow()
	}
}

//go:noinline
func (c *Conn) touchOutSlow() { c.lane.restamp(&c.entry, &c.out.stamp, c.lane.stamp()) }

// Sent records that n bytes went out, or were taken over by the kernel.
func (c *Conn) Sent(n int) {
	c.TouchOut()
	if p := c.phase.Load(); p.out.perByte != 0 && n > 0 {
		c.lane.pay(&c.out, c.out.price(n, p.out.perByte, c.out.stamp.Load()))
	}
}

// AwaitRead says that bytes are asked of the peer, until [Conn.PauseRead]:
// ReadTimeout, ReadTotal and MinReadRate count. It changes nothing if they are
// asked already, as they are when tracking begins. In a phase with ReadTotal or
// MinReadRate it reads the clock, so that waits count exactly however short they
// are; so does PauseRead.
func (c *Conn) AwaitRead() { c.await(&c.in) }

// PauseRead says that nothing is asked of the peer: ReadTimeout, ReadTotal and
// MinReadRate stand still.
func (c *Conn) PauseRead() { c.pause(&c.in) }

// AwaitWrite says that bytes wait to go out, until [Conn.PauseWrite]:
// WriteTimeout and MinWriteRate count. It changes nothing if they wait already.
// In a phase with MinWriteRate it reads the clock, and so does PauseWrite.
func (c *Conn) AwaitWrite() { c.await(&c.out) }

// PauseWrite says that no bytes wait to go out, as is so when tracking begins.
func (c *Conn) PauseWrite() { c.pause(&c.out) }

// RestartWrite begins a wait to write now, in place of one that was reported before. It
// is for owners that are not told when a wait begins: they report one that always lasts,
// and tell by [Evidence] when it is none.
func (c *Conn) RestartWrite() {
	c.AwaitWrite()
	stamp, at := c.lane.instant(c.phase.Load().out.counted != 0)
	c.out.rewait(stamp)
	c.out.repay(at)
}

// await starts a wait on f, and hastens to the deadlines that it brings up: those of
// the phase that is seen once the wait can be. One that is entered meanwhile and does
// not see the wait is seen here.
func (c *Conn) await(f *flow) {
	if f.waits() {
		return
	}
	stamp, at := c.lane.instant(c.direction(f).counted != 0)
	c.startWait(f, stamp, at)
}

// startWait is await at a given instant, for a wait that counts from the given stamp,
// and reports whether there was none.
func (c *Conn) startWait(f *flow, stamp uint32, at uint64) bool {
	if !f.await(stamp, at) {
		return false
	}
	d := c.direction(f)
	c.lane.hasten(&c.entry, stamp+d.soonest)
	if d.counted != 0 { // a part of it may be used up
		c.lane.hasten(&c.entry, uint32(f.paid.Load()>>32)+2+uint32(d.counted))
	}
	return true
}

// pause ends a wait on f, if there is one.
func (c *Conn) pause(f *flow) {
	if f.waits() {
		f.pause(c.lane.instant(c.direction(f).counted != 0))
	}
}

// Beat records a beat of a passive [Heartbeat], and that something arrived. An active
// Heartbeat does not need it: whatever arrives answers a ping.
func (c *Conn) Beat() {
	if c.lane.now.Load() != c.beat.Load() {
		c.beatSlow()
	}
}

// beats is the slow path of Beat, taken once a tick. The tick of the beat is read
// before that of the arrival: a Beat that does nothing as the beat is of its tick
// must not be a later arrival.
//
//go:noinline
func (c *Conn) beatSlow() {
	now := c.lane.stamp()
	c.Touch()
	raise(&c.beat, now)
}

// Enter puts the connection under another phase: all its limits but the age
// begin to count anew. The phase must come from the connection's tracker; it
// panics otherwise, and if the phase pings and there is no Ping in the [Hooks]. It
// may be called by any goroutine, and in a loop-driven shard on the loop.
func (c *Conn) Enter(p *Phase) {
	c.mustFit(p)
	now := c.lane.stamp()
	c.begin(p, now)
	for later := c.lane.stamp(); later != now; later = c.lane.stamp() { // a wait may have begun in between
		now = later
		c.begin(p, now)
	}
	c.phase.Store(p)
	c.lane.hasten(&c.entry, now+p.soonest)
	if p.aged { // counts from long before
		c.lane.hasten(&c.entry, uint32(c.look(p, moment{now: c.lane.clock.recent()}).at))
	}
}

// begin starts all limits of p but the age at the given stamp. The phase is to be
// stored last.
func (c *Conn) begin(p *Phase, stamp uint32) {
	raise(&c.began, stamp) // before the flows: see resume
	c.beginFlow(&c.in, p.in.counted != 0, stamp)
	c.beginFlow(&c.out, p.out.counted != 0, stamp)
	raise(&c.beat, stamp)
	raise(&c.pinged, stamp) // after the stamp of what arrived, as an answer has to be no older
	c.state.set(0, unanswered|granted|missMask)
}

// beginFlow starts all limits of a flow. If the phase counts its waits, one that
// goes on counts from this instant, and a pause, as all do, from the beginning of
// its tick.
func (c *Conn) beginFlow(f *flow, counted bool, stamp uint32) {
	begun, at := stamp, instantOf(stamp)
	if counted {
		begun, at = c.lane.instant(true)
		if !f.waits() {
			at = instantOf(begun)
		}
	}
	f.begin(stamp, begun, at)
}

// mustFit panics if c cannot enter p.
func (c *Conn) mustFit(p *Phase) {
	if p == nil {
		panic("idle: Enter(nil); did Phase return an error?")
	}
	if p.clock != c.lane.clock {
		panic("idle: Enter with a phase of another tracker; make it with Phase of the one that tracks the connection")
	}
	if err := c.hooks.Check(p.policy); err != nil {
		panic(err.Error())
	}
}

// Close ends the tracking of a connection that has ended by itself, and
// reports whether it was still live: false if it had timed out, was closed
// before, or was handed back at shutdown. No callback for it begins after
// Close has returned, though one that has begun may still be running. A closed
// Conn may be tracked again.
func (c *Conn) Close() bool {
	l := c.lane
	if l == nil {
		return false
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	if c.state.Load()&(live|expired) != 0 { // else it may be in another wheel by now
		l.wheel.Cancel(&c.timer)
	}
	was, ok := c.state.end()
	if !ok || was&live == 0 {
		return false
	}
	l.counts.gone.Add(1)
	if l.retiring.Load() {
		l.ended()
	}
	return true
}

// Live reports whether the connection is tracked and has not timed out.
func (c *Conn) Live() bool { return c.state.Load()&live != 0 }

// Ending reports whether the connection has timed out and waits to be reaped.
func (c *Conn) Ending() bool { return c.state.Load()&expired != 0 }
