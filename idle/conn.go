package idle

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
	"github.com/idlewheel/idlewheel/wheel"
)

// A connection is a set of words. Activities write them and its shard reads them, without a lock. Most are
// ticks. Waits and what is paid for are nanoseconds of the clock, in 64 bits.
//
//	word      means                                                written by
//	lastIn    the tick of the last input                           Touch, Received, Probe
//	lastOut   the tick of the last output                          TouchOut, Sent, Probe
//	used      the tick of the last Use, Enter, or answer of        Use, Enter, OnTimeout
//	          OnTimeout that counts as use
//	unread    the tick before the one at which Probe found         Probe
//	          input unread that puts limits off, or born
//	in.at     when the wait to read began, with the lowest bit     AwaitRead, PauseRead, Enter, OnTimeout, the shard
//	          set, or with MinReadRate when a pause did
//	out.at    the same for writes                                  AwaitWrite, PauseWrite, RestartWrite, Enter, Probe, OnTimeout,
//	                                                               the shard
//	in.paid   up to when waits to read are paid for by bytes and   Received, AwaitRead, Enter, Probe, OnTimeout, the shard
//	          pauses; only with MinReadRate
//	out.paid  the same for writes                                  Sent, AwaitWrite, RestartWrite, Enter, Probe, OnTimeout,
//	                                                               the shard
//	beat      the tick of the last beat                            Beat, Enter, OnTimeout
//	pinged    the tick of the last ping                            the shard, Enter, OnTimeout
//	began     the tick at which the phase began                    Enter, OnTimeout
//	born      the tick at which tracking began                     Track
//	told      the tick of the last OnDrain, or born                the shard
//	placed    the tick of its place in the wheel                   the shard, and reports that need an earlier one
//	state     flags, and the misses of the heartbeat               all of them
//	phase     the limits that count                                Enter
//
// A writer stores what makes a deadline later before what makes it count: AwaitRead stores in.paid before
// in.at, Enter all words before the phase, and a ping stores pinged before the flag unanswered. The shard
// loads in the opposite order (Conn.snapshot). So at worst it computes a deadline that was true a
// moment ago, never one that is too early. Package internal/model tries all interleavings.
//
// A Conn is for one connection. Its state is 0 before it is tracked, then live, and at last over. One swap
// of live, ending and over decides the outcome. The other flags may be set and cleared at any time.
//
//	flag        means                                        set by                 cleared by
//	live        tracked, and without an outcome yet          Track                  Stop, Close, and what ends it
//	ending      it is being decided whether a live one ends  a pass, or an answer   the same, Deliver
//	            (see Deliver), or it has been                of OnTimeout
//	over        not tracked any more                         what clears live       nothing
//	asking      OnTimeout is running, and the connection is  the pass               who puts it back
//	            only in the wheel for a drain's ForceAfter
//	telling     OnDrain is running                           the pass               the end of OnDrain
//	pinging     Ping is running                              the pass               the end of Ping
//	unanswered  a ping waits for an answer, unless there     a ping                 Enter, OnTimeout
//	            was input since
//	evicting    an eviction of it is under way               a Capacity             who finds it in use
//	dismissed   End was called                               End                    nothing
//	exact       waits for the minimum rates are measured by  the pass               nothing
//	            the real clock, because one looked missed
const (
	live = 1 << iota
	ending
	over
	asking
	telling
	pinging
	unanswered
	evicting
	dismissed
	exact

	missUnit = 1 << 16
	missMask = 0x7f * missUnit
)

// Conn is the state of a tracked connection. All its deadlines are computed from
// it. It has 136 bytes on 64-bit systems, and its shard needs 8 more. Embed it in the
// connection's own type, and do not copy it. The zero value is ready for [Tracker.Track] or
// [Shard.Track]. Until that has returned, call no other method. A Conn is tracked
// once: to track a connection again, use a new one.
//
// The methods that report activity neither allocate nor block, except that they
// take a lock if they may bring a deadline forward. After the connection has ended
// they have no effect. Methods about reading must not be called by two goroutines
// at once, nor methods about writing. All others may be called by any goroutine,
// and a reader, a writer and others may run at the same time. On a loop-driven
// [Shard], all methods must be called on its loop.
type Conn struct {
	// What an activity needs is one cache line.
	shard                         *Shard
	phase                         atomic.Pointer[Phase]
	in, out                       flow
	lastIn, lastOut, used, placed tickWord

	unread, beat, pinged, began, born, told tickWord

	state state
	index uint32 // in connSet.all
	timer wheel.Timer
	owner any
	hooks *Hooks
}

// A flow is one direction of a connection. One goroutine at a time reports on it.
type flow struct {
	at   atomic.Int64 // when the wait began, with the lowest bit set, or when a pause did, if there is a minimum rate
	paid atomic.Int64 // up to when waits are paid for, in phases with a minimum rate
}

const waiting = 1 // the lowest bit of flow.at

func (f *flow) waits() bool { return f.at.Load()&waiting != 0 }

// A tickWord is a tick in 32 bits; see [clock.Stamp].
type tickWord = clock.AtomicStamp

// A word is a tickWord in the fast path of an activity. With its method Load that would not be inlined.
type word = atomic.Uint32

// Touch reports that something has arrived. Any number of goroutines may call it at once.
func (c *Conn) Touch() {
	if (*word)(&c.shard.now).Load() != (*word)(&c.lastIn).Load() {
		c.touchSlow()
	}
}

// TouchOut reports that something has been sent. It's for bytes that needn't be counted, such as
// those whose number a [SocketState] will report. Any number of goroutines may call it at once.
func (c *Conn) TouchOut() {
	if (*word)(&c.shard.now).Load() != (*word)(&c.lastOut).Load() {
		c.touchOutSlow()
	}
}

// Use reports that the connection is used, such as by a message. With Policy.ExplicitUse only that counts
// as use, and otherwise every byte does too. Any number of goroutines may call it at once.
func (c *Conn) Use() {
	if (*word)(&c.shard.now).Load() != (*word)(&c.used).Load() {
		c.useSlow()
	}
}

// Beat reports a beat of a passive [Heartbeat]. It isn't use. Any number of goroutines may call it at once.
func (c *Conn) Beat() {
	if (*word)(&c.shard.now).Load() != (*word)(&c.beat).Load() {
		c.beatSlow()
	}
}

// The slow paths run once a tick for each word, and for each activity while the clock sleeps. They must not be inlined, and take no
// argument, so that Touch and the others can be (.ci/run checks that).

//go:noinline
func (c *Conn) touchSlow() { c.restamp(&c.lastIn) }

//go:noinline
func (c *Conn) touchOutSlow() { c.restamp(&c.lastOut) }

//go:noinline
func (c *Conn) useSlow() { c.restamp(&c.used) }

//go:noinline
func (c *Conn) beatSlow() { c.restamp(&c.beat) }

func (c *Conn) restamp(w *tickWord) {
	s := c.shard
	w.Raise(s.stamp())
	if n := s.slowPaths.Load(); n < clock.FewSlowPaths {
		s.slowPaths.Store(n + 1)
	}
}

// Received reports that n bytes have arrived. If n is zero or negative, it's the same as
// [Conn.Touch].
func (c *Conn) Received(n int) {
	c.Touch()
	if l := c.limits(); l.in.rate > 0 {
		c.pay(&c.in, &l.in, n)
	}
}

// Sent reports that n bytes have been sent, which means handed to the kernel. If n is zero or
// negative, it's the same as [Conn.TouchOut].
func (c *Conn) Sent(n int) {
	c.TouchOut()
	if l := c.limits(); l.out.rate > 0 {
		c.pay(&c.out, &l.out, n)
	}
}

// pay moves f.paid forward by what n bytes pay for, but not farther than mostCredit from now. A pause hasn't been
// paid for yet, so during one that counts from its start.
func (c *Conn) pay(f *flow, d *direction, n int) {
	for {
		from, had := f.at.Load(), f.paid.Load()
		if from&waiting != 0 {
			_, from = c.shard.instant(false)
		}
		most := max(from, d.from) + int64(mostCredit)
		if had >= most || f.paid.CompareAndSwap(had, min(max(had, d.from)+d.worth(n), most)) {
			return
		}
	}
}

// AwaitRead reports that the server waits for bytes from the peer, until [Conn.PauseRead].
// Meanwhile ReadTimeout and MinReadRate count. It has no effect if the server waits
// already, which it does when tracking begins. [Policy] says how waits count for MinReadRate.
//
// A read that fails at its user's own deadline need not be reported as a pause. Then the wait goes on until the
// next read that succeeds, so a loop with a short deadline doesn't escape ReadTimeout.
func (c *Conn) AwaitRead() {
	if !c.in.waits() {
		c.await(&c.in)
	}
}

// PauseRead reports that the server doesn't wait for the peer. ReadTimeout and MinReadRate stop counting.
func (c *Conn) PauseRead() { c.pause(&c.in) }

// AwaitWrite reports that bytes are waiting to be sent, until [Conn.PauseWrite].
// Meanwhile WriteTimeout and MinWriteRate count. It has no effect if bytes are
// already waiting. [Policy] says how waits count for MinWriteRate.
func (c *Conn) AwaitWrite() {
	if !c.out.waits() {
		c.await(&c.out)
	}
}

// PauseWrite reports that no bytes are waiting to be sent. That's also the state when tracking
// begins.
func (c *Conn) PauseWrite() { c.pause(&c.out) }

// RestartWrite reports that a write starts to wait now, even if a wait was reported before. It
// also restarts MinWriteRate, so bytes that were sent before don't count. It's for the first
// write of a response, and for owners that don't learn when a write starts to wait. Such an owner
// never calls PauseWrite. Instead, its [SocketState] sets NotWriting when nothing is waiting.
func (c *Conn) RestartWrite() {
	d := &c.limits().out
	stamp, now := c.shard.instant(d.rate > 0)
	c.out.paid.Store(now)
	c.out.at.Store(now | waiting)
	c.hastenFlow(&c.out, &c.limits().out, stamp)
}

// hastenFlow makes sure that c is checked in time for a wait on f that began with the given stamp.
func (c *Conn) hastenFlow(f *flow, d *direction, stamp clock.Stamp) {
	c.shard.hasten(c, stamp.Bits()+d.soonest)
	if d.rate > 0 {
		c.shard.hasten(c, uint32(d.due(f.paid.Load(), c.isExact())))
	}
}

// isExact reports whether waits are measured by the real clock. A wait or a pause loads flow.at before; see letOff.
func (c *Conn) isExact() bool { return c.state.Load()&exact != 0 }

// await starts a wait on f, unless there is one. In a phase with a minimum rate it first pays for the pause.
// Another goroutine may enter a phase meanwhile:
//
//	reader: stores the wait, then loads the limits
//	Enter:  loads the wait, then stores the phase
//
// So Enter restarts the wait, or the reader sees the new phase. If Enter comes between the payment and the
// wait, the account of the new phase begins with a pause that has been paid for too much.
func (c *Conn) await(f *flow) {
	for d := c.direction(f); ; {
		was := f.at.Load()
		if was&waiting != 0 {
			return
		}
		exactly := d.rate > 0 && c.isExact()
		stamp, now := c.shard.instant(exactly)
		if d.rate > 0 {
			pause, had := now-max(was, d.from), f.paid.Load()
			if !exactly {
				pause -= unsurePause * d.tick
			}
			if to := max(had, d.from) + max(pause, 0); to != had && !f.paid.CompareAndSwap(had, to) {
				continue
			}
		}
		if f.at.CompareAndSwap(was, now|waiting) {
			paid := d.rate > 0
			if d = c.direction(f); !paid && d.rate > 0 { // SetPolicy came before the wait, and the pause isn't paid for
				c.letOff(f)
			}
			c.hastenFlow(f, d, stamp)
			return
		}
	}
}

// unsurePause is how many ticks of a pause aren't paid for if it isn't measured. By the coarse clock it may begin a tick and a
// slack before the wait really ended. So no more is paid for than the pause was long, unless a copy of the clock was later than that.
const unsurePause = 2

// pause ends the wait on f, if there is one. How long the pause is matters to a minimum rate only.
func (c *Conn) pause(f *flow) {
	d := c.direction(f)
	for was := f.at.Load(); was&waiting != 0; was = f.at.Load() {
		now := was
		if d.rate > 0 {
			_, now = c.shard.instant(c.isExact())
		}
		if f.at.CompareAndSwap(was, now&^waiting) {
			return
		}
	}
}

// restart lets all limits of f count from now. A pause goes on from there.
func (f *flow) restart(d *direction, now int64) {
	if d.rate > 0 {
		f.paid.Store(now)
	}
	f.rewait(now, d.rate > 0)
}

// rewait lets the wait begin now, if there is one. If pauses count, it does the same with a pause.
func (f *flow) rewait(now int64, pauses bool) {
	for was := f.at.Load(); was < now && (was&waiting != 0 || pauses); was = f.at.Load() {
		if f.at.CompareAndSwap(was, now&^waiting|was&waiting) {
			return
		}
	}
}

// letOff pays for all time up to now, or in a pause up to its beginning: its end pays for the rest. What bytes have paid in
// advance stays. The beginning of the wait or the pause is moved by a trifle, so that a reader that is about to end it
// starts over. It then pays for a pause again:
//
//	reader: pays for the pause
//	pass:   loads paid, moves the pause, and pays for what was waited before
//	reader: finds that the pause was moved
//
// Nor does a wait that counts exactly begin by the coarse clock, which may be much too early:
//
//	reader: loads at, then finds that exact isn't set, and reads the coarse clock
//	pass:   sets exact, then moves the pause
//	reader: finds that the pause was moved, and that exact is set
//
// The clock is read after paid is loaded, so that it isn't behind the one that a reader has paid by.
func (c *Conn) letOff(f *flow) {
	for {
		had, at := f.paid.Load(), f.at.Load()
		moved := at + 2 // the lowest bit stays as it is
		to := moved
		if at&waiting != 0 {
			to = int64(c.shard.clock.Elapsed())
		}
		if f.at.CompareAndSwap(at, moved) && (had >= to || f.paid.CompareAndSwap(had, to)) {
			return
		}
	}
}

// Deliver decides whether the application gets bytes that have just been read. If it returns
// false, the connection has timed out: discard the bytes, and make the read fail with the
// timeout, as if they had come too late.
//
// Call Deliver after the read has been reported, by [Conn.Received] and [Conn.PauseRead], and
// before the application gets the bytes. Then a connection whose bytes were delivered isn't ended
// by ReadTimeout or MinReadRate until it waits again. An active Heartbeat and IdleTimeout count from
// the report. To an eviction or a Drain, the connection is busy until it
// waits again. [Conn.End], the ForceAfter of a Drain, and limits that input doesn't move, such as
// PhaseTimeout and MaxAge, may end it at any time.
//
// Deliver returns true for a connection that isn't tracked. Like other methods about reading, it
// must not be called by two goroutines at once.
func (c *Conn) Deliver() bool { return c.state.Load()&ending == 0 || c.deliverSlow() }

// deliverSlow decides by one swap whether the reader or the end was first:
//
//	reader: reports the read, then loads the state
//	pass:   sets ending, then looks at what the reader reports, then swaps live and ending for over and ending
//
// So the pass sees the report, or the reader sees ending here and clears it, or it sees
// that the connection has ended.
func (c *Conn) deliverSlow() bool {
	for {
		was := c.state.Load()
		if was&live == 0 {
			return was&ending == 0 // else the owner has closed it
		}
		if c.state.CompareAndSwap(was, was&^ending) {
			return true
		}
	}
}

// Enter puts the connection in phase p. All limits except MaxAge start over. What another
// goroutine reports meanwhile may count for the previous phase. Enter panics if p is nil, if p
// was not made by the connection's tracker, and if p has an active Heartbeat and the [Hooks] have
// no Ping. It may be called from any goroutine; on a loop-driven shard, call it on the loop.
func (c *Conn) Enter(p *Phase) {
	c.mustFit(p)
	s := c.shard
	stamp := c.begin(p.limits())
	c.phase.Store(p)
	l := p.limits() // after the phase is stored: a SetPolicy since begin may have visited c before it was in p
	s.hasten(c, stamp.Bits()+l.soonest)
	if c.in.waits() { // after it too: a wait that begins meanwhile sees the phase
		c.hastenFlow(&c.in, &l.in, stamp)
	}
	if c.out.waits() {
		c.hastenFlow(&c.out, &l.out, stamp)
	}
	if l.maxAge > 0 { // counts from long before
		m := clock.Moment{Now: s.clock.Recent()}
		snap := c.snapshot(m)
		s.hasten(c, uint32(l.next(&snap).at))
	}
}

// begin starts all limits of l except MaxAge, and returns the tick from which they count. The caller must store
// the phase afterwards.
func (c *Conn) begin(l *limits) (stamp clock.Stamp) {
	stamp, now := c.shard.instant(l.in.rate > 0 || l.out.rate > 0)
	c.began.Raise(stamp)
	c.used.Raise(stamp)
	c.in.restart(&l.in, now)
	c.out.restart(&l.out, now)
	if l.beats > 0 {
		c.restartBeats(stamp)
	}
	return stamp
}

// restartBeats lets the heartbeat count from stamp.
func (c *Conn) restartBeats(stamp clock.Stamp) {
	c.beat.Raise(stamp)
	c.pinged.Raise(stamp)
	c.state.drop(unanswered | missMask)
}

// mustFit panics if c cannot enter p.
func (c *Conn) mustFit(p *Phase) {
	if p == nil {
		panic("idle: Enter(nil); did Phase return an error?")
	}
	if p.tracker != c.shard.tracker {
		panic("idle: Enter with a phase of another tracker; make it with Phase of the one that tracks the connection")
	}
	if err := c.hooks.fit(p.limits()); err != nil {
		panic(err.Error())
	}
}

// Stop ends the tracking of a connection. It reports whether the connection was live: it returns
// false if the connection has timed out, if Stop was called before, or if its tracker was closed.
// Stop doesn't wait for callbacks: one may still be running when it returns, and one that the tracker has just
// decided to call may even begin then. On an event loop none does. OnEnd and Expire of a connection that has timed out, or
// was ended in another way, are called even if Stop comes first.
func (c *Conn) Stop() bool {
	return c.shard != nil && c.shard.untrack(c, endRecord{}, live, over, nil)
}

// Live reports whether the connection is tracked and has not timed out.
func (c *Conn) Live() bool { return c.state.Load()&live != 0 }

// TimedOut reports whether the connection has timed out, or was ended in another way than by Stop. It may
// not be closed yet: see [Hooks].OnEnd.
func (c *Conn) TimedOut() bool { return c.state.Load()&(over|ending) == over|ending }

// Idle returns how long ago a tracked connection was last used: by a byte in either direction, or, with
// Policy.ExplicitUse, by [Conn.Use]. Entering a phase counts as use, and so does a SetPolicy that makes use explicit, and an
// OnTimeout that keeps a connection despite its IdleTimeout. The result may be up to two ticks too short.
func (c *Conn) Idle() time.Duration { return c.shard.clock.Moment().Since(c.lastUse()) }

// Age returns how long a connection has been tracked. The result may be up to two ticks too
// short. It is exact up to 2²⁹ ticks, which are 62 days with a tick of 10 ms. For an older
// connection, the result is from 2²⁹ to 1.5 × 2²⁹ ticks.
func (c *Conn) Age() time.Duration { return c.shard.clock.Moment().Since(c.born.Load()) }

func (c *Conn) limits() *limits { return c.phase.Load().limits() }

// direction returns the part of the limits in force that concerns f.
func (c *Conn) direction(f *flow) *direction {
	l := c.limits()
	if f == &c.out {
		return &l.out
	}
	return &l.in
}

// lastUse returns the tick of the last use.
func (c *Conn) lastUse() clock.Stamp {
	used, l := c.used.Load(), c.limits()
	switch {
	case !l.policy.ExplicitUse:
		return used.Later(c.lastIn.Load()).Later(c.lastOut.Load())
	case l.used > 0: // Use counts from there, because every byte did before
		return used.Later(clock.StampOf(l.used))
	}
	return used
}

// hasUnread reports whether input was unread when a limit passed, and nothing has been read since.
func (c *Conn) hasUnread() bool {
	return c.unread.Load().Sub(c.lastIn.Load().Later(c.began.Load())) > 0
}

// isBusy reports whether c is in the middle of something: it's in a phase that says so, its owner
// doesn't wait for input, or its owner is being asked something. isInUse also considers unread
// and unsent bytes.
func (c *Conn) isBusy() bool {
	return c.limits().policy.NoInterrupt || !c.in.waits() || c.state.Load()&(telling|asking) != 0
}

// start sets all words of a connection but its state, at the start of tracking: a read is
// waiting, a write is not. Nobody else can see them yet, so these are plain stores: atomic ones take longer than the rest
// of Track.
func (c *Conn) start(p *Phase, l *limits) (stamp clock.Stamp) {
	stamp, now := c.shard.instant(l.in.rate > 0 || l.out.rate > 0)
	set(&c.phase, p)
	set(&c.lastIn, stamp)
	set(&c.lastOut, stamp)
	set(&c.used, stamp)
	set(&c.unread, stamp)
	set(&c.beat, stamp)
	set(&c.pinged, stamp)
	set(&c.began, stamp)
	set(&c.born, stamp)
	set(&c.told, stamp)
	set(&c.in.at, now|waiting)
	set(&c.in.paid, now)
	set(&c.out.at, now&^waiting)
	set(&c.out.paid, now)
	set((*word)(&c.placed), stamp.Bits()+l.first)
	return stamp
}

// set is a plain store of v in the atomic word w, which nobody else can see yet. v has the type that w loads.
func set[W, V any, P interface {
	*W
	Load() V
}](w P, v V) {
	*(*V)(unsafe.Pointer((*W)(w))) = v
}

// refresh moves old ticks forward, so that their age does not overflow. None is older than born.
func (c *Conn) refresh(now int64) {
	oldest := clock.StampOf(now - 2*clock.MaxTicks)
	if c.born.Load().Sub(oldest) > 0 {
		return
	}
	for _, w := range [...]*tickWord{&c.lastIn, &c.lastOut, &c.used, &c.unread, &c.beat, &c.pinged, &c.began, &c.born, &c.told} {
		w.Raise(oldest)
	}
}

// seed returns a number that differs between connections.
func (c *Conn) seed() uint32 { return uint32(uintptr(unsafe.Pointer(c)) >> 4) }

// snapshot loads the words of a connection at the moment m, in the order that is explained above. The limits must
// have been loaded before. Shard.look adds what a drain does.
func (c *Conn) snapshot(m clock.Moment) (s snapshot) {
	s.Moment = m
	st := c.state.Load()
	s.unanswered, s.misses, s.exact = st&unanswered != 0, misses(st), st&exact != 0
	s.seed = c.seed()
	in, out := c.in.at.Load(), c.out.at.Load()
	s.pinged = m.Tick(c.pinged.Load())
	s.lastIn, s.lastOut = m.Tick(c.lastIn.Load()), m.Tick(c.lastOut.Load())
	s.used, s.unread = m.Tick(c.used.Load()), m.Tick(c.unread.Load())
	s.in, s.out = flowState{in, c.in.paid.Load()}, flowState{out, c.out.paid.Load()}
	s.began, s.beat = m.Tick(c.began.Load()), m.Tick(c.beat.Load())
	s.born, s.told = m.Tick(c.born.Load()), m.Tick(c.told.Load())
	return s
}

// keep restarts the clock of the limit that OnTimeout was asked about, and no other.
func (c *Conn) keep(by Reason, stamp clock.Stamp, now int64) {
	switch by {
	case ReasonIdle:
		c.used.Raise(stamp)
	case ReasonRead:
		c.in.rewait(now, false)
	case ReasonWrite:
		c.out.rewait(now, false)
	case ReasonMinReadRate:
		c.letOff(&c.in)
	case ReasonMinWriteRate:
		c.letOff(&c.out)
	case ReasonHeartbeat:
		c.restartBeats(stamp)
	case ReasonPhase:
		c.began.Raise(stamp)
	}
}

// state is the state of a connection: flags, and above them the misses of the heartbeat.
type state struct{ atomic.Uint32 }

func misses(s uint32) int { return int(s & missMask / missUnit) }

// drop clears some bits. Usually none is set, and then it costs a load.
func (s *state) drop(bits uint32) {
	if s.Load()&bits != 0 {
		s.And(^bits)
	}
}

// change replaces the state by what next returns for it, unless ok is false. It returns the
// state before, and ok.
func (s *state) change(next func(was uint32) (is uint32, ok bool)) (was uint32, ok bool) {
	for {
		was = s.Load()
		is, ok := next(was)
		if !ok || is == was || s.CompareAndSwap(was, is) {
			return was, ok
		}
	}
}

// move sets and clears bits if all bits in need are set, and no bit in set is. It reports
// whether it did.
func (s *state) move(need, set, clear uint32) bool {
	_, ok := s.change(func(was uint32) (uint32, bool) { return was&^clear | set, was&(need|set) == need })
	return ok
}

// finish ends the tracking if all bits in need are set: with over, or with over and ending if it wasn't the owner who ended it. It
// returns the state before, and whether it did.
func (s *state) finish(need, outcome uint32) (was uint32, ok bool) {
	return s.change(func(was uint32) (uint32, bool) { return was&^(live|ending) | outcome, was&need == need })
}

// spare clears ending, unless the connection has ended.
func (s *state) spare() { s.move(live|ending, 0, ending) }
