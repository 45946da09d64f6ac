package simulation

import (
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A life is one tracking of a Conn, and its owner.
type life struct {
	world  *world
	slot   *slot
	conn   *idle.Conn
	keeper bool         // it has OnTimeout
	leaver bool         // it has OnEnd
	unsent atomic.Int64 // bytes, while a write waits
	phase  *idle.Phase
	ledger *ledger

	probed   bool
	kernelIn time.Duration // when bytes arrived of which nobody told
	unread   bool          // and that wait to be read, if probed
	receives time.Duration // until when the peer receives what was written, if probed

	pinged     bool // Ping is running
	telling    bool // OnDrain is
	asked      bool // OnTimeout is
	asking     idle.Reason
	answer     bool
	answeredAt time.Duration
	probedAt   time.Duration
	expired    bool // it has ended, by Expire or OnEnd
	endedAt    time.Duration
	torn       time.Duration // when it has ended, if its policy was replaced just then: it may have ended by the old one or the new one
	leaving    bool          // OnEnd has begun, and Expire hasn't
	leftAt     time.Duration // when it has returned
	closed     atomic.Bool   // Close has returned

	name      string // its label
	moved     int    // as world.moved, when something happened that a forecast cannot know
	movedAt   time.Duration
	forecast  *simForecast
	trackedAt time.Duration
	toldAt    time.Duration // when OnDrain was called last
	spared    time.Duration // when its callback replaced the capacity
	foundAt   time.Duration // when Probe has said last that input is unread
	free      time.Duration // since when it isn't in use

	info      idle.Info       // of the last visit
	visitedAt time.Duration   // when that was
	byHand    time.Duration   // when somebody called End
	ifIdle    []time.Duration // the visits for which somebody called EndIfIdle
	idleAt    time.Duration   // when that was, the last time
	idleMoved int             // moved then, if l was surely idle
}

// live reports whether l has no outcome yet. Where a goroutine calls OnEnd, l learns of it a little later than its Conn.
func (l *life) live() bool { return !l.expired && !l.closed.Load() && !l.conn.TimedOut() }

func (l *life) String() string {
	return fmt.Sprintf("slot %d, OnTimeout %v, OnEnd %v, Probe %v, expired=%v closed=%v %+v", l.slot.n, l.keeper, l.leaver, l.probed, l.expired, l.closed.Load(), *l.ledger)
}

// newLife makes an owner of the given kind.
func (w *world) newLife(s *slot, kind uint64) *life {
	l := &life{world: w, slot: s, answeredAt: -1, foundAt: -1, toldAt: -1, idleMoved: -1, phase: w.phases[0], trackedAt: w.now()}
	l.ledger = newLedger(w.told(w.phases[0]), w.tick, w.now(), func() bool { return l.conn != nil && measures(l.conn) })
	l.ledger.wraps = w.wraps
	w.lives++
	l.name = nameOf(w.lives)
	l.moves()
	if w.stalls {
		l.ledger.stall = 3 * mostStall * w.tick // a stall, and jumps within it
	}
	kind %= 8
	l.keeper, l.leaver, l.probed = kind == 0 || kind == 2 || kind == 4, kind == 1 || kind == 2, kind == 3 || kind == 4
	return l
}

// told is the policy of a phase that the ledger goes by.
func (w *world) told(ph *idle.Phase) idle.Policy { return w.tells(ph.Policy()) }

// tells returns what the ledger is told of a policy.
func (w *world) tells(p idle.Policy) idle.Policy {
	if w.lie != nil {
		return w.lie(p)
	}
	return p
}

// enter is how every callback begins. It returns false if the life is over
// meanwhile, which is no fault; that it was over before is one.
func (l *life) enter(name string) (now time.Duration, ok bool) {
	w := l.world
	if l.closed.Load() || w.over.Load() {
		w.errorf("at %v: %s began after Close had returned: %v", w.now(), name, l)
	}
	w.mu.Lock()
	w.calm = -1
	return w.now(), !l.closed.Load()
}

// ends notes the first callback after the end: OnEnd if l has that, otherwise Expire.
func (l *life) ends(name string, err *idle.TimeoutError) {
	now, ok := l.enter(name)
	defer l.world.stall()
	defer l.world.mu.Unlock()
	w := l.world
	w.timedOut[err.Reason]++
	if !ok {
		return
	}
	if l.expired {
		w.errorf("at %v: expired twice: %v", now, l)
	}
	limit, late := isLimit(err.Reason), time.Duration(0)
	if limit {
		if s, ok := l.ledger.may(err.Reason, err.Reason.String(), now); ok {
			late = now - s.lo
		}
		l.checkTimeout("Expire", err, now)
	} else {
		l.checkEnding(err, now)
	}
	if l.isAsked(err.Reason) && (l.asking != err.Reason || l.answer) {
		w.errorf("at %v: Expire by %v, but OnTimeout was asked about %v and answered %v: %v", now, err, l.asking, l.answer, l)
	}
	recently := time.Duration(0) // before an OnTimeout that has answered at once
	if l.keeper {
		recently = (atOnce + 1) * w.tick
	}
	if limit && l.probed && err.Reason != idle.ReasonMaxAge && !w.stalls && now-l.probedAt > recently {
		w.errorf("at %v: Expire by %v without being examined: %v", now, err, l)
	}
	l.expired, l.endedAt = true, now
	l.hasEnded(err.Reason, err.Cause, late)
	if w.chance("close", l.slot.n)%8 < 3 { // many owners close at once
		if l.conn.Stop() {
			w.errorf("at %v: Close in %s = true: %v", now, name, l)
		}
		l.closed.Store(true)
		l.slot.life = nil
	}
	l.meddle("Expire", l.keeper)
	l.maybeThrow(name)
}

// checkTimeout checks that err is true at this moment; w.mu is held.
func (l *life) checkTimeout(name string, err *idle.TimeoutError, now time.Duration) {
	w := l.world
	if l.torn == now {
		return
	}
	if !l.isAsked(err.Reason) || name == "OnTimeout" {
		l.checkForecast(err.Reason, now)
	}
	s, ok := l.ledger.may(err.Reason, err.Reason.String(), now)
	if !ok && l.slot.home.loop != nil && l.ledger.replaced == now { // a loop was ending it when the policy was replaced
		return
	}
	if !ok && name == "OnTimeout" && l.ledger.replaced > 0 && now-l.ledger.replaced <= l.ledger.stall {
		return // the decision was before the policy was replaced, and the callback's goroutine comes later; nobody is ended by it
	}
	if !ok {
		w.errorf("at %v: %s too early: %v; %v\n%v", now, name, err, s, l)
	}
	if name == "Expire" && ok && now > s.hi+l.ledger.stall+l.slot.home.blocked(s.hi-horizon*w.tick) {
		w.happened["late"]++
	}
	if ok && now > s.hi+l.heldUp(s) {
		w.errorf("at %v: %s by %v, but late: %v\n%v", now, name, err, s, l)
	}
	if late, ok := l.ledger.overdue(now, l.heldUp); ok && name == "OnTimeout" {
		w.errorf("at %v: %s by %v, but late: %v\n%v", now, name, err, late, l)
	}
	if p := l.ledger.policy; err.Phase != p.Name {
		w.errorf("at %v: %s by %v, but in %q: %v", now, name, err, p.Name, l)
	}
}

func (l *life) OnDrain() {
	now, ok := l.enter("OnDrain")
	defer l.world.mu.Unlock()
	if !ok || l.expired {
		return
	}
	l.telling = true
	defer func() { l.telling, l.ledger.until = false, l.world.now() }()
	l.moves()
	_, byAge := l.ledger.may(0, "tell", now)
	switch byDrain := l.mayBeTold(); {
	case byAge:
		l.ledger.tells(now, !byDrain)
	case byDrain:
		l.ledger.tells(now, false)
		l.checkTold(now)
	case l.ledger.replaced == now: // it was decided upon before
	default:
		s, _ := l.ledger.may(0, "tell", now)
		l.world.errorf("at %v: OnDrain for no reason, or too early: %v\n%v", now, s, l)
	}
	if d := l.world.drain; d != nil && d.asked[l] == 0 {
		d.asked[l] = now
	}
	l.toldAt, l.ledger.until = now, never
	if l.slot.home.loop != nil { // else others may be checked at this moment
		l.meddle("OnDrain", false)
		l.control("OnDrain")
	}
	l.maybeThrow("OnDrain")
}

func (l *life) Ping() error {
	now, ok := l.enter("Ping")
	w := l.world
	w.pings++
	l.pinged = true
	g := l.ledger
	if ok && !l.expired {
		if s, ok := g.may(0, "ping", now); !ok && g.excused != now { // else Keep has just overtaken it
			w.errorf("at %v: Ping too early: %v\n%v", now, s, l)
		}
		if l.ledger.pinging {
			w.errorf("at %v: two Pings at once: %v", now, l)
		}
		g.pings = append(g.pings, now)
		if w.chance("ping is sent", l.slot.n)%2 == 0 && !l.closed.Load() {
			l.moves()
			g.out = now
			l.conn.Sent(0)
		}
	}
	onLoop := l.slot.home.loop != nil
	block := !onLoop && !w.quiet && w.chance("ping", l.slot.n)%8 == 2
	if block {
		g.stuck, g.pinging = true, true
	}
	if onLoop {
		l.meddle("Ping", false)
		l.control("Ping")
	}
	w.mu.Unlock()
	if block {
		w.hang(w.tick*time.Duration(w.chance("pinging", 0)%101) + 4321)
		w.mu.Lock()
		l.meddle("Ping", false) // nobody is checked at this odd moment
		l.ledger.pinging = false
		w.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l.pinged = false
	if w.chance("ping fails", l.slot.n)%6 == 0 {
		return io.ErrClosedPipe
	}
	return nil
}

// Unsent is for visits.
func (l *life) Unsent() int { return int(l.unsent.Load()) }

func (l *life) OnTimeout(err *idle.TimeoutError) bool {
	w := l.world
	now, ok := l.enter("OnTimeout")
	if ok {
		if l.asked || l.expired && l.endedAt < now || err.Reason == idle.ReasonMaxAge { // it may be ended at the moment at which it is asked
			w.errorf("at %v: Keep is asked again: %v", now, l)
		}
		l.checkTimeout("OnTimeout", err, now)
	}
	l.asked, l.asking = true, err.Reason
	block := l.slot.home.loop == nil && !w.quiet && w.chance("keep", l.slot.n)%8 == 3
	answer := w.chance("answer", l.slot.n)%3 > 0
	how := w.chance("how it ends", l.slot.n) % 64 // only some return
	if how < 2 {
		answer = false
	}
	if ok {
		l.meddle("OnTimeout", true)
	}
	w.mu.Unlock()
	if block {
		most := uint64(53)
		if how%8 == 3 {
			most = 600
		}
		w.hang(w.tick*time.Duration(w.chance("keeping", 0)%most) + 3210)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if block {
		l.meddle("kept", true)
	}
	l.moves()
	l.asked, l.answer, l.answeredAt = false, answer, w.now()
	l.ledger.excused = w.now()
	if answer {
		w.kept++
		l.ledger.kept(err.Reason, w.now())
	}
	switch {
	case how == 0:
		w.throw()
	case how == 1 && l.slot.home.loop == nil:
		runtime.Goexit()
	}
	return answer
}

// throw panics; w.mu is held.
func (w *world) throw() {
	w.panics++
	panic("thrown")
}

// maybeThrow panics now and then; w.mu is held.
func (l *life) maybeThrow(where string) {
	if w := l.world; !w.quiet && w.chance(where+" throws", l.slot.n)%32 == 0 {
		w.throw()
	}
}

// hang blocks for a while, but no longer than until the world ends.
func (w *world) hang(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.ending:
	}
}

// OnEnd may take longer than it should.
func (l *life) OnEnd(err *idle.TimeoutError) {
	w := l.world
	w.mu.Lock()
	l.leaving = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		l.leftAt = w.now()
	}()
	defer func() {
		if l.slot.home.loop == nil && w.chance("leave", l.slot.n)%4 == 0 {
			w.hang(time.Duration(w.chance("leaving", 0) % uint64(3*onEndTakes)))
		}
	}()
	l.ends("OnEnd", err)
}

// Expire follows when OnEnd has returned, or after a second.
func (l *life) Expire(err *idle.TimeoutError) {
	if !l.leaver {
		l.ends("Expire", err)
		return
	}
	w := l.world
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if due := l.endedAt + onEndTakes; !l.leaving || now != l.leftAt && (now < due || now > due+w.standing(l.endedAt)) {
		w.errorf("at %v: Expire; ended at %v, and OnEnd has returned at %v: %v", now, l.endedAt, l.leftAt, l)
	}
	l.leaving = false
	l.maybeThrow("Expire")
}

// isAsked reports whether l is asked before it is ended for r.
func (l *life) isAsked(r idle.Reason) bool {
	return l.keeper && isLimit(r) && r != idle.ReasonMaxAge
}

// Examine knows of bytes that arrived without being told.
func (l *life) Examine(about idle.Reason) (e idle.SocketState) {
	w := l.world
	l.enter("Examine")
	w.mu.Unlock()
	w.stall()
	w.mu.Lock()
	now, ok := w.now(), !l.closed.Load()
	defer w.mu.Unlock()
	if l.probedAt != now { // else it would do the same again, as chance goes by the time, and a pass might never end
		l.meddle("Examine", l.keeper)
		l.control("Examine")
	}
	l.probedAt, l.foundAt = now, -1
	_, known := l.ledger.countsUnread(now)
	switch {
	case ok && l.unread && known:
		l.moves()
		l.ledger.findsUnread(about, now)
		e.Unread, l.foundAt = true, now
	case ok && l.kernelIn > 0 && l.kernelIn >= l.ledger.in: // as the kernel does, it tells again
		e.In = max(1, now-l.kernelIn) // 0 would be: not known
		if l.kernelIn > l.ledger.in {
			l.moves()
			l.ledger.arrived(l.kernelIn)
		}
	}
	if e.Sending = now < l.receives; e.Sending {
		l.moves()
	}
	return e
}
