package idle

import (
	"sync/atomic"
	"unsafe"

	"github.com/idlewheel/idlewheel/wheel"
)

// Conn is the state of a tracked connection: all its deadlines, in 96 bytes.
// Embed it in the connection's own type. The zero value is ready for
// [Tracker.Track] or [Shard.Track]; until then no other method may be called.
// It must not be copied.
//
// Methods that report activity never block, lock or allocate, and after the
// connection has ended they do nothing of consequence. Those about reading
// must not be called by two goroutines at once, nor those about writing; a
// reader, a writer and everything else may run at the same time. All methods
// of a connection on a loop-driven [Shard] must be called on its loop.
type Conn struct {
	// What an activity needs comes first, so that it is in one cache line: the
	// shard, and the first half of a flow.

	shard *Shard
	in    flow
	out   flow

	timer wheel.Timer
	phase atomic.Pointer[Phase]
	owner Owner

	placed atomic.Uint32 // the deadline for which the timer was scheduled
	born   atomic.Uint32 // when the first limit of age began to count

	// beat is the tick of the last ping; or of the last beat; or at which the phase
	// began, if it limits that. It has the form of a flow's wait, so that one load
	// tells that a beat, and with it an arrival, has been recorded at this tick.
	beat atomic.Uint32

	state state
}

// connOf returns the connection of which t is the timer.
func connOf(t *wheel.Timer) *Conn {
	return (*Conn)(unsafe.Add(unsafe.Pointer(t), -int(unsafe.Offsetof(Conn{}.timer))))
}

// Touch records that something arrived. It may be called by any number of
// goroutines at once.
func (c *Conn) Touch() {
	if c.shard.now.Load() != c.in.stamp.Load() {
		c.arrived()
	}
}

// arrived is the slow path of Touch. Touch can be inlined only if this is not; CI
// sees to it that it is.
//
//go:noinline
func (c *Conn) arrived() { c.shard.restamp(c, &c.in.stamp, c.shard.now.Load()) }

// Received records that n bytes arrived; 0 is the same as [Conn.Touch].
func (c *Conn) Received(n int) {
	c.Touch()
	if p := c.phase.Load(); p.readPerByte != 0 {
		c.shard.pay(&c.in, c.in.price(n, p.readPerByte, c.in.stamp.Load()))
	}
}

// TouchOut is [Conn.Sent] of bytes that need not be counted: of none, or of
// those that a [Pulse] will tell of.
func (c *Conn) TouchOut() {
	if c.shard.now.Load() != c.out.stamp.Load() {
		c.went()
	}
}

//go:noinline
func (c *Conn) went() { c.shard.restamp(c, &c.out.stamp, c.shard.now.Load()) }

// Sent records that n bytes went out, or were taken over by the kernel.
func (c *Conn) Sent(n int) {
	c.TouchOut()
	if p := c.phase.Load(); p.writePerByte != 0 && n > 0 {
		c.shard.pay(&c.out, c.out.price(n, p.writePerByte, c.out.stamp.Load()))
	}
}

// BeginRead says that a read begins to wait for the peer: ReadTimeout and
// MinReadRate count from now, and have not since something last arrived. It is
// for owners that are a [Waiter]; they need not say when the wait is over.
//
// Of such a wait only the whole ticks that it has certainly lasted are counted
// against MinReadRate and ReadTotal. An owner whose reads may each take less than
// a tick, as those of a trickle do, calls [Conn.PauseRead] after each while its
// policy has one of these limits; then they count exactly.
func (c *Conn) BeginRead() {
	if c.in.wait.Load() != c.shard.waits.Load() {
		c.beginRead()
	}
}

//go:noinline
func (c *Conn) beginRead() {
	if now, at := c.shard.instant(c.phase.Load().readGrace); c.in.renew(now, at, c.shard.tracker.clock.lag) {
		c.hastenFor(&c.in, now)
	}
}

// BeginWrite says that bytes begin to wait to go out: WriteTimeout and
// MinWriteRate count from now, and have not since something last went. It is
// for owners that are a [Waiter]; they need not say when the wait is over.
func (c *Conn) BeginWrite() {
	if c.out.wait.Load() != c.shard.waits.Load() {
		c.beginWrite()
	}
}

//go:noinline
func (c *Conn) beginWrite() {
	if now, at := c.shard.instant(c.phase.Load().writeGrace); c.out.renew(now, at, c.shard.tracker.clock.lag) {
		c.hastenFor(&c.out, now)
	}
}

// AwaitRead says that bytes are asked of the peer, until [Conn.PauseRead]:
// ReadTimeout, ReadTotal and MinReadRate count. It changes nothing if they are
// asked already, as they are when tracking begins. In a phase with ReadTotal or
// MinReadRate it reads the clock, so that waits count exactly however short they
// are; so does PauseRead.
func (c *Conn) AwaitRead() { c.await(&c.in, c.phase.Load().readGrace) }

// PauseRead says that nothing is asked of the peer: ReadTimeout, ReadTotal and
// MinReadRate stand still.
func (c *Conn) PauseRead() { c.in.pause(c.shard.instant(c.phase.Load().readGrace)) }

// AwaitWrite says that bytes wait to go out, until [Conn.PauseWrite]:
// WriteTimeout and MinWriteRate count. It changes nothing if they wait already.
// In a phase with MinWriteRate it reads the clock, and so does PauseWrite.
func (c *Conn) AwaitWrite() { c.await(&c.out, c.phase.Load().writeGrace) }

// PauseWrite says that no bytes wait to go out, as is so when tracking begins.
func (c *Conn) PauseWrite() { c.out.pause(c.shard.instant(c.phase.Load().writeGrace)) }

// await starts a wait on f, of which the phase counts the time if there is a grace.
func (c *Conn) await(f *flow, grace int64) {
	if stamp, at := c.shard.instant(grace); f.await(stamp, at) {
		c.hastenFor(f, stamp)
	}
}

// Beat records a beat of a passive [Heartbeat]. It is not needed, and means
// nothing more than [Conn.Touch], for the active form.
func (c *Conn) Beat() {
	if c.shard.waits.Load() != c.beat.Load() {
		c.beats()
	}
}

// beats is the slow path of Beat, taken once a tick, but each time in a phase that
// is limited itself. The tick of the beat is taken before that of the arrival: an
// activity that is passed over because of it must not have been the later one.
//
//go:noinline
func (c *Conn) beats() {
	now := c.shard.stamp()
	c.Touch()
	if c.phase.Load().whole == 0 {
		raise(&c.beat, now<<1|beaten)
	}
}

// beaten marks in [Conn.beat] that it is a beat.
const beaten = waiting

// Enter puts the connection under another phase: all its limits but the age
// begin to count anew. The phase must come from the connection's tracker; it
// panics otherwise, and if the phase pings and the owner is no [Pinger]. It
// may be called by any goroutine, and in a loop-driven shard on the loop.
func (c *Conn) Enter(p *Phase) {
	c.mustFit(p)
	now := c.shard.stamp()
	c.begin(p, now)
	c.hasten(now + p.any)
	if p.age > 0 { // counts from long before
		left, _ := c.ageLimit(p, c.state.Load())
		c.hasten(c.born.Load() + 1 + uint32(left))
	}
}

// begin starts all limits of p but the age at the given stamp.
func (c *Conn) begin(p *Phase, stamp uint32) {
	raise(&c.beat, stamp<<1)
	c.beginFlow(&c.in, p.readGrace, stamp)
	c.beginFlow(&c.out, p.writeGrace, stamp)
	c.state.set(0, pinged|granted|missMask)
	c.phase.Store(p)
}

// beginFlow starts all limits of a flow. If there is a grace, the phase counts its
// waits: then one that goes on counts from this instant, and a pause, as all do,
// from the beginning of its tick.
func (c *Conn) beginFlow(f *flow, grace int64, stamp uint32) {
	if grace == 0 {
		f.begin(stamp, stamp, instantOf(stamp))
		return
	}
	begun, at := c.shard.instant(grace)
	if f.wait.Load()&waiting == 0 {
		at = instantOf(begun)
	}
	f.begin(stamp, begun, at)
}

// mustFit panics if c cannot enter p.
func (c *Conn) mustFit(p *Phase) {
	if p == nil {
		panic("idle: Enter(nil); did Phase return an error?")
	}
	if p.tracker != c.shard.tracker {
		panic("idle: Enter with a phase of another tracker; make it with Phase of the one that tracks the connection")
	}
	if err := p.fits(c.owner); err != nil {
		panic(err.Error())
	}
}

// Close ends the tracking of a connection that has ended by itself, and
// reports whether it was still live: false if it had timed out, was closed
// before, or was handed back at shutdown. No callback for it begins after
// Close has returned, though one that has begun may still be running. A closed
// Conn may be tracked again.
func (c *Conn) Close() bool {
	s := c.shard
	if s == nil {
		return false
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if c.state.Load()&(live|expired) != 0 { // else it may be in another wheel by now
		s.wheel.Cancel(&c.timer)
	}
	was, ok := c.state.end()
	if !ok || was&live == 0 {
		return false
	}
	s.counts.gone.Add(1)
	s.ended()
	return true
}

// Live reports whether the connection is tracked and has not timed out.
func (c *Conn) Live() bool { return c.state.Load()&live != 0 }

// hastenFor hastens to the deadlines that a wait on f has brought up by
// beginning at the given stamp.
func (c *Conn) hastenFor(f *flow, stamp uint32) {
	p := c.phase.Load()
	reach, grace := p.readReach, p.readGrace
	if f == &c.out {
		reach, grace = p.writeReach, p.writeGrace
	}
	c.hasten(stamp + reach)
	if grace != 0 { // a part of it may be used up
		c.hasten(uint32(f.paid.Load()>>32) + 2 + uint32(grace))
	}
}

// hasten sees to it that the connection is looked at no later than at the given
// stamp. Usually it will be anyway.
func (c *Conn) hasten(deadline uint32) {
	if int32(c.placed.Load()-deadline) > 0 {
		c.shard.pull(c)
	}
}

// seed differs between connections, and between trackings of the same one.
func (c *Conn) seed() uint32 {
	return uint32(uintptr(unsafe.Pointer(c))>>4) + c.state.Load()/genUnit
}
