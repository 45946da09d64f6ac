package idle

import (
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
	"github.com/idlewheel/idlewheel/idle/internal/deadlines"
	"github.com/idlewheel/idlewheel/idle/internal/words"
)

// A connection is a set of words. Activities write them and its shard reads them, without a lock.
//
//	word       means                                    written by
//	in.stamp   the tick of the last input that was use  Touch, Received, Enter, Probe
//	out.stamp  the same for output                      TouchOut, Sent, Enter, Probe, OnTimeout
//	in.wait    when the wait to read began, or ended    AwaitRead, PauseRead, Enter, Probe, OnTimeout, SetPolicy
//	out.wait   the same for writes                      AwaitWrite, PauseWrite, RestartWrite, Enter, Probe, OnTimeout, SetPolicy
//	in.paid    up to when waits to read are paid for    Received, AwaitRead, PauseRead, Enter, Probe, OnTimeout, SetPolicy
//	out.paid   the same for writes                      Sent, BeatOut, AwaitWrite, PauseWrite, RestartWrite, Enter, Probe, OnTimeout, SetPolicy
//	beat       the tick of the last beat or answer      Beat, Enter, Probe; Touch and Received if pongIn is set
//	pingSent   the tick of the last ping's output       Probe, BeatOut; TouchOut and Sent if pingOut is set
//	pinged     the tick of the last ping                the shard, Enter, OnTimeout, SetPolicy
//	began      the tick at which the phase began        Enter, OnTimeout
//	born       the tick at which tracking began         Track
//	told       the tick of the last OnDrain, or born    the shard
//	state      flags, and the misses of the heartbeat   all of them
//	phase      the limits that count                    Enter, SetPolicy
//	placed     the tick for which it is in the wheel    the shard, and whoever brings a deadline forward
//
// A writer stores what makes a deadline later before what makes it count:
//
//	method     stores                                   and then
//	Touch      in.stamp                                 state: clears granted
//	Received   in.stamp                                 in.paid
//	Beat       beat                                     state: clears granted
//	AwaitRead  in.paid: pays for the pause              in.wait, and placed if that is too late
//	PauseRead  in.wait                                  in.paid: takes off a part of a tick
//	Enter      began, paid, stamp and wait of both      beat, pinged, state, then phase, then placed
//	a ping     pinged                                   state: sets unanswered, then placed
//
// The shard loads in the opposite order (entry.snapshot). So at worst it computes a deadline that
// was true a moment ago, never one that is too early. Package internal/model tries all
// interleavings.
//
// A Conn is for one connection. Its state is 0 before it is tracked, entering while Track
// decides, then live, and at last over. It is 0 again only if Track has failed. One swap of
// live, ending, expired and over decides the outcome. The other flags may be set and cleared
// at any time.
//
//	flag        means                                        set by                 cleared by
//	entering    Track may still refuse it                    Track                  Track
//	dismissed   End was called                               End                    nothing
//	live        tracked, and without an outcome yet          Track                  Stop, and what ends it
//	ending      it is being decided whether a live one ends  a pass                 the pass, Deliver
//	            (see Deliver), or it has been
//	expired     timed out, and not closed by its owner yet   what ends it           Stop; before Reap
//	over        not tracked any more                         Stop, Close, Reap      nothing
//	asking      OnTimeout is running, and the connection is  the pass               the end of OnTimeout
//	            not in the wheel
//	telling     OnDrain is running                           MaxAge, Drain          the end of OnDrain
//	pinging     Ping is running                              the pass               the end of Ping
//	pingOut     the next output is taken for a ping          the start of Ping      that output, the end of Ping
//	pongIn      the next input is taken for the answer       the start of Ping      that input, Enter, a Ping that fails
//	unanswered  a ping waits for an answer, unless there     a ping                 Enter, OnTimeout, SetPolicy
//	            was input since
//	granted     unread input has averted a timeout, and may  Probe                  an activity, Enter, OnTimeout
//	            not do so again
//	overdueIn   a read has begun to wait after all its       AwaitRead              Enter, Deliver, SetPolicy, AwaitRead
//	            waits together had passed their limit
//	overdueOut  the same for a write                         AwaitWrite             Enter, SetPolicy, AwaitWrite
//	evicting    an eviction of it is under way               a Capacity             the pass, if it is in use
//	keptIn      OnTimeout has kept it for a ReadTimeout      OnTimeout              ResumeRead, SuspendRead
//	            while no read waited, maybe between a
//	            SuspendRead and its ResumeRead
//	keptOut     the same for WriteTimeout                    OnTimeout              ResumeWrite, SuspendWrite

// Conn is the state of a tracked connection. All its deadlines are computed from
// it. It has 128 bytes on 64-bit systems, and its shard needs 8 more. Embed it in the
// connection's own type, and do not copy it. The zero value is ready for [Tracker.Track] or
// [Shard.Track]. Until that has returned, call no other method. A Conn is tracked
// once: to track a connection again, use a new one.
//
// The methods that report activity neither allocate nor block, except that they
// take a lock if they bring a deadline forward. After the connection has ended
// they have no effect. Methods about reading must not be called by two goroutines
// at once, nor methods about writing. All others may be called by any goroutine,
// and a reader, a writer and others may run at the same time. On a loop-driven
// [Shard], all methods must be called on its loop.
type Conn struct {
	shard *Shard // shard and the words of entry are one cache line, all that Touch, TouchOut and Beat need
	entry
	owner any
	hooks *Hooks
}

// A word is a [clock.AtomicStamp] in the fast path of an activity. With AtomicStamp.Load
// that would not be inlined.
type word = words.Uint32

// Touch reports that something has arrived. Any number of goroutines may call it at once.
func (c *Conn) Touch() {
	if (*word)(&c.shard.now).Load() != (*word)(&c.in.stamp).Load() {
		c.touchSlow()
	}
}

// touchSlow is the slow path of Touch. It must not be inlined, so that Touch can
// be (.ci/run checks that).
//
//go:noinline
func (c *Conn) touchSlow() { c.shard.restamp(c, c.shard.stamp(), &c.in.stamp, &c.beat, pongIn) }

// Received reports that n bytes have arrived. If n is zero or negative, it's the same as
// [Conn.Touch].
func (c *Conn) Received(n int) {
	c.Touch()
	if p := c.phase.Load(); p.in.perByte != 0 {
		c.shard.pay(&c.in, c.in.price(n, p.in.perByte, p.in.credit, c.last(&c.in)))
		c.checkPaid(&c.in, p)
	}
}

// TouchOut reports that something has been sent. It's for bytes that needn't be counted, such as
// those whose number a [SocketState] will report. Any number of goroutines may call it at once.
func (c *Conn) TouchOut() {
	if (*word)(&c.shard.now).Load() != (*word)(&c.out.stamp).Load() {
		c.touchOutSlow()
	}
}

//go:noinline
func (c *Conn) touchOutSlow() {
	c.shard.restamp(c, c.shard.stamp(), &c.out.stamp, &c.pingSent, pingOut)
}

// Sent reports that n bytes have been sent, which means handed to the kernel. If n is zero or
// negative, it's the same as [Conn.TouchOut].
func (c *Conn) Sent(n int) {
	c.TouchOut()
	c.paySent(n)
}

// paySent moves out.paid forward for n bytes that were sent.
func (c *Conn) paySent(n int) {
	if p := c.phase.Load(); p.out.perByte != 0 && n > 0 {
		c.shard.pay(&c.out, c.out.price(n, p.out.perByte, p.out.credit, c.last(&c.out)))
		c.checkPaid(&c.out, p)
	}
}

// checkPaid is called after bytes have moved paid forward under the phase was. If another phase
// was entered meanwhile, that may have happened after its account had begun:
//
//	reader: loads the phase
//	Enter:  stores paid, and then another phase
//	reader: pays at the price of the old phase
//
// So everything beyond the current time is taken back. If the reader pays after Enter has
// stored paid and before it stores the phase, settle in Enter takes it back.
func (c *Conn) checkPaid(f *flow, was *Phase) {
	is := c.phase.Load()
	if is != was && (is.first != was.first || !is.direction(f == &c.out).continues(was.direction(f == &c.out))) {
		f.limitTo(c.shard.clock.Instant())
	}
}

// AwaitRead reports that the server waits for bytes from the peer, until [Conn.PauseRead].
// Meanwhile ReadTimeout, ReadTotal and MinReadRate count. It has no effect if the server waits
// already, which it does when tracking begins. In a phase with ReadTotal or MinReadRate,
// AwaitRead and PauseRead read the real clock, so that even the shortest waits count exactly.
func (c *Conn) AwaitRead() { c.await(&c.in) }

// PauseRead reports that the server doesn't wait for the peer. ReadTimeout, ReadTotal and
// MinReadRate stop counting.
func (c *Conn) PauseRead() { c.pause(&c.in) }

// AwaitWrite reports that bytes are waiting to be sent, until [Conn.PauseWrite].
// Meanwhile WriteTimeout and MinWriteRate count. It has no effect if bytes are
// already waiting. In a phase with MinWriteRate, AwaitWrite and PauseWrite read
// the real clock.
func (c *Conn) AwaitWrite() { c.await(&c.out) }

// PauseWrite reports that no bytes are waiting to be sent. That's also the state when tracking
// begins.
func (c *Conn) PauseWrite() { c.pause(&c.out) }

// RestartWrite reports that a write starts to wait now, even if a wait was reported before. It
// also restarts MinWriteRate, so bytes that were sent before don't count. It's for the first
// write of a response, and for owners that don't learn when a write starts to wait. Such an owner
// never calls PauseWrite. Instead, its [SocketState] sets NotWriting when nothing is waiting.
func (c *Conn) RestartWrite() {
	c.AwaitWrite()
	d := c.direction(&c.out)
	stamp, at := c.shard.instant(d.counted != 0)
	c.out.rewait(stamp)
	c.out.paid.Store(at)
	c.state.drop(overdueOut)                  // AwaitWrite may have found the old account used up
	c.shard.hasten(c, stamp.Bits()+d.soonest) // it may have been paid for in advance
}

// await starts a wait on f, and moves the connection to an earlier place in the
// wheel if the wait's deadline needs that. A phase may be entered at the same
// time:
//
//	reader: stores the wait, then loads the phase
//	Enter:  loads the wait, then stores the phase
//
// So Enter restarts the wait, or the reader sees the new phase.
func (c *Conn) await(f *flow) {
	if f.waits() {
		return
	}
	stamp, at := c.shard.instant(c.direction(f).counted != 0)
	c.startWait(f, stamp, at)
}

// startWait is await for a wait that counts from the given stamp, at the instant at. It reports
// whether there was no wait before.
//
// Whether the wait is overdue is decided twice, because another account may begin meanwhile:
//
//	reader: loads paid, and finds that the wait begins beyond the limit
//	Enter:  stores paid, clears overdueIn, and stores the phase
//	reader: sets overdueIn, loads paid again, and clears overdueIn
func (c *Conn) startWait(f *flow, stamp clock.Stamp, at clock.Instant) bool {
	if !f.await(stamp, at) {
		return false
	}
	d := c.direction(f)
	c.shard.hasten(c, stamp.Bits()+d.soonest)
	if d.counted != 0 { // earlier waits may have used up part of it
		deadline := f.deadline(d)
		if int32(at.Bits()-deadline) > 0 { // not stamp: a wait that is resumed counts from earlier
			flag := c.overdue(f)
			if c.state.Or(flag)&flag == 0 && int32(at.Bits()-f.deadline(d)) <= 0 {
				c.state.drop(flag)
			}
		}
		c.shard.hasten(c, deadline)
	}
	return true
}

// pause ends the wait on f, if there is one. It returns f.wait as it was before.
func (c *Conn) pause(f *flow) (was uint32) {
	if was = f.wait.Load(); was&waiting != 0 {
		was = f.pause(c.shard.instant(c.direction(f).counted != 0))
	}
	return was
}

// Deliver decides whether the application gets bytes that have just been read. If it returns
// false, the connection has timed out: discard the bytes, and make the read fail with the
// timeout, as if they had come too late.
//
// Call Deliver after the read has been reported, by [Conn.Received] and [Conn.PauseRead], and
// before the application gets the bytes. Then a connection whose bytes were delivered isn't ended
// by ReadTimeout, ReadTotal or MinReadRate until it waits again. An active Heartbeat counts from
// the report. So does IdleTimeout, except with the first bytes after a ping: they are taken for
// its answer, see [Heartbeat]. To an eviction or a Drain, the connection is busy until it
// waits again. [Conn.End], the ForceAfter of a Drain, and limits that input doesn't move, such as
// PhaseTimeout and MaxAge, may end it at any time.
//
// Deliver returns true for a connection that isn't tracked. Like other methods about reading, it
// must not be called by two goroutines at once.
func (c *Conn) Deliver() bool {
	return c.state.Load()&(ending|overdueIn) == 0 || c.deliverSlow()
}

// deliverSlow decides by one swap whether the reader or the end was first:
//
//	reader: reports the read, then loads the state
//	pass:   sets ending, then looks at what the reader reports, then swaps live and ending for ending
//
// So the pass sees the report, or the reader sees ending here and clears it, or it sees
// that the connection has ended.
//
// The bytes are delivered, so a wait that began beyond a limit on all waits must not end the
// connection in the pause that follows. Therefore overdueIn is cleared too.
func (c *Conn) deliverSlow() bool {
	for {
		was := c.state.Load()
		if was&live == 0 {
			return was&ending == 0 // else the owner has closed it
		}
		if c.state.CompareAndSwap(was, was&^(ending|overdueIn)) {
			return true
		}
	}
}

// Beat reports input that only shows that the peer is alive: a beat of a passive [Heartbeat], or
// the answer to a ping. Unlike [Conn.Touch], it doesn't count as use of the connection, so it
// doesn't restart IdleTimeout. An active Heartbeat doesn't need it, because any input answers a
// ping. Any number of goroutines may call it at once.
//
// If the same bytes are also reported with Touch or [Conn.Received], they count as use. Adapters
// that report each read, such as idlenet, do that, because they don't know what the bytes mean.
func (c *Conn) Beat() {
	if (*word)(&c.shard.now).Load() != (*word)(&c.beat).Load() {
		c.beatSlow()
	}
}

// beatSlow is the slow path of Beat. It is taken once a tick, or by each Beat while the
// clock sleeps.
//
//go:noinline
func (c *Conn) beatSlow() { c.shard.restamp(c, c.shard.stamp(), &c.beat, &c.beat, pongIn) }

// BeatOut reports that n bytes have been sent that only keep the connection alive, such as the
// answer to the peer's ping. Unlike [Conn.Sent], it doesn't count as use of the connection, so it
// doesn't restart IdleTimeout. For the limits of writing it's the same as Sent.
func (c *Conn) BeatOut(n int) {
	if s := c.shard; s.now.Load() != c.pingSent.Load() {
		s.restamp(c, s.stamp(), &c.pingSent, &c.pingSent, pingOut)
	}
	c.paySent(n)
}

// Enter puts the connection in phase p. All limits except MaxAge start over. Bytes that another
// goroutine reports meanwhile may count for the previous phase. Enter panics if p is nil, if p
// was not made by the connection's tracker, and if p has an active Heartbeat and the [Hooks] have
// no Ping. It may be called from any goroutine; on a loop-driven shard, call it on the loop.
func (c *Conn) Enter(p *Phase) {
	c.mustFit(p)
	if left := c.phase.Load(); left != left.latest() { // else a grace could go on by an age that is replaced
		c.follow(c.shard.clock)
	}
	version := p.latest()
	now := c.enter(version)
	for version != p.latest() { // replaced meanwhile, and the visit may have been here already
		version = p.latest()
		now = c.enter(version)
	}
	p = version
	c.shard.hasten(c, now.Bits()+p.soonest)
	if p.aged { // counts from long before
		m := clock.Moment{Now: c.shard.clock.Recent()}
		snap := c.snapshot(m)
		c.shard.hasten(c, uint32(deadlines.Next(&snap, p.limits).At))
	}
}

// enter puts c under p as it is, and returns the stamp at which its limits begin.
func (c *Conn) enter(p *Phase) (now clock.Stamp) {
	now = c.shard.stamp()
	c.begin(p, now)
	for later := c.shard.stamp(); later != now; later = c.shard.stamp() { // a wait may have started in the new tick
		now = later
		c.begin(p, now)
	}
	c.phase.Store(p)
	c.in.settle(now, c.shard.clock.Instant)
	c.out.settle(now, c.shard.clock.Instant)
	return now
}

// begin starts all limits of p except MaxAge at the given stamp. The caller must store the phase
// afterwards.
func (c *Conn) begin(p *Phase, stamp clock.Stamp) {
	c.began.Raise(stamp) // before the flows, see resume
	c.beginFlow(&c.in, p.in.counted != 0, stamp)
	c.beginFlow(&c.out, p.out.counted != 0, stamp)
	c.beat.Raise(stamp)
	c.pinged.Raise(stamp) // after in.stamp: a snapshot with this ping must not have older input
	c.state.drop(unanswered | pongIn | granted | overdueIn | overdueOut | missMask)
}

// beginFlow starts all limits of a flow. If the phase limits waits in total, a
// wait under way counts from the current instant. A pause under way counts from
// the start of its tick, as all pauses do.
func (c *Conn) beginFlow(f *flow, counted bool, stamp clock.Stamp) {
	begun, at := stamp, stamp.Start()
	if counted {
		begun, at = c.shard.instant(true)
		if !f.waits() {
			at = begun.Start()
		}
	}
	f.begin(stamp, begun, at)
}

// mustFit panics if c cannot enter p.
func (c *Conn) mustFit(p *Phase) {
	if p == nil {
		panic("idle: Enter(nil); did Phase return an error?")
	}
	if p.clock != c.shard.clock {
		panic("idle: Enter with a phase of another tracker; make it with Phase of the one that tracks the connection")
	}
	if err := c.hooks.Check(p.Policy()); err != nil {
		panic(err.Error())
	}
}

// Stop ends the tracking of a connection. It reports whether the connection was live: it returns
// false if the connection has timed out, if Stop was called before, or if its tracker was closed.
// Stop doesn't wait for callbacks: one may still be running when it returns, and one that the tracker has just
// decided to call may even begin then. On an event loop none does. OnEnd and Expire of a connection that has timed out, or
// was ended in another way, are called even if Stop comes first.
func (c *Conn) Stop() bool { return c.close(false) }

// Release is Stop for a connection that stays open, without limits or with another Conn
// ([Tracker.Adopt]). Stats.Released counts it, but Options.OnEnds doesn't receive it, because it
// hasn't ended.
func (c *Conn) Release() bool { return c.close(true) }

// close is Stop, or Release if the connection stays open.
func (c *Conn) close(stays bool) bool {
	s := c.shard
	if s == nil {
		return false
	}
	s.lock.Lock()
	s.forget(c)
	p := c.endRecord()
	p.stays = stays
	was, ok := c.state.end()
	s.lock.Unlock()
	if !ok || was&live == 0 {
		return false
	}
	s.part(c, &p)
	return true
}

// Live reports whether the connection is tracked and has not timed out.
func (c *Conn) Live() bool { return c.state.Load()&live != 0 }

// Ending reports whether the connection has timed out and is not closed yet.
func (c *Conn) Ending() bool { return c.state.Load()&expired != 0 }

// Idle returns how long ago a tracked connection was last used, in either direction. Pings
// and their answers don't count, see [Heartbeat]. An OnTimeout that keeps a connection despite its
// IdleTimeout counts as use. The result may be up to two ticks too short.
func (c *Conn) Idle() time.Duration { return c.shard.clock.Moment().Since(c.lastUse()) }

// Age returns how long a connection has been tracked. The result may be up to two ticks too
// short. It is exact up to 2²⁹ ticks, which are 62 days with a tick of 10 ms. For an older
// connection, the result is from 2²⁹ to 1.5 × 2²⁹ ticks.
func (c *Conn) Age() time.Duration { return c.shard.clock.Moment().Since(c.born.Load()) }
