package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A happening is what happens in a world, but for what the tracker does. It makes
// sense whatever happened before, so any of them can be left out of a trace.
type happening struct {
	index int           // in the trace as it was made
	at    time.Duration // of the bubble's time
	slot  int
	what  int
	pick  uint64 // whatever else has to be chosen
}

func (h happening) String() string {
	return fmt.Sprintf("%6d. at %-14v slot %d: %s (%d)", h.index, h.at, h.slot, deeds[h.what], h.pick)
}

// What can happen to a connection. Where there is none, one begins.
const (
	receive = iota
	touch
	send
	awaitRead
	pauseRead
	awaitWrite
	pauseWrite
	doBeat
	enterPhase
	trackAgain
	arriveUnread
	closeIt
	jumpClock
	visitAll
	replaceOne
	replaceAll
	swing
	drainAll
	cancelDrain
	endByHand
	setCapacity
	blockLoop
	evictSome
	closeShard
	use
)

var deeds = [...]string{
	receive: "receive", touch: "touch", send: "send",
	awaitRead: "await a read", pauseRead: "pause reading",
	awaitWrite: "await a write", pauseWrite: "pause writing", doBeat: "beat", enterPhase: "enter",
	trackAgain: "track again", arriveUnread: "unread input", closeIt: "close", jumpClock: "the process stands still",
	visitAll: "visit all", replaceOne: "replace a policy", replaceAll: "replace all policies", swing: "replace a policy back and forth",
	drainAll: "drain", cancelDrain: "cancel the drain", endByHand: "end by hand", setCapacity: "set the capacity",
	blockLoop: "block the loop, or have it go on", evictSome: "evict some",
	closeShard: "close the shard of the loop, and make another one",
	use:        "use",
}

// odds are out of how many each deed is drawn.
var odds = []int{
	receive, receive, receive, receive, touch, send, send, send, awaitRead, awaitRead, pauseRead, pauseRead,
	awaitWrite, awaitWrite, awaitWrite, pauseWrite, pauseWrite, doBeat, doBeat, enterPhase, enterPhase,
	trackAgain, arriveUnread, closeIt,
}

// mostUnsent is how many bytes an event moves, or leaves waiting for a peer, at most.
const mostUnsent = 400

// wrapOf is when the stamps of a world wrap, about.
func wrapOf(seed int64) time.Duration {
	const whole = 1 << 32
	return time.Duration((whole-agesOf[seed%4]%whole)%whole) * tickOf(seed)
}

// traceOf makes the events of a world. They are at odd instants, at which no
// pass runs: those begin at multiples of a slack, and are over soon after.
func traceOf(seed int64, steps int) []happening {
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	tick := tickOf(seed)
	slack := slackOf(tick)
	trace := make([]happening, steps)
	at := time.Duration(0)
	for i := range trace {
		most := tick
		switch r := rng.IntN(100); {
		case r < 60:
		case r < 90:
			most *= 5
		case r < 98:
			most *= 40
		default:
			most *= 300 // the clock falls asleep
		}
		if left := at - wrapOf(seed); left > -8*tick && left < 2*tick {
			most = tick / 2
		}
		at += time.Duration(1 + rng.Int64N(int64(most)))
		if at%slack < mostVisits {
			at += mostVisits + time.Duration(rng.Int64N(int64(slack-2*mostVisits)))
		}
		trace[i] = happening{i, at, rng.IntN(len(simSlots)), odds[rng.IntN(len(odds))], rng.Uint64()}
		if seed%2 == 1 && rng.IntN(50) == 0 {
			trace[i].what = jumpClock
		}
		switch rng.IntN(40) {
		case 0:
			trace[i].what = visitAll
		case 1, 2:
			trace[i].what = replaceOne
		}
		r := rng.IntN(600)
		for _, of := range []struct{ what, odds int }{
			{drainAll, 4}, {cancelDrain, 1}, {endByHand, 8}, {setCapacity, 11}, {visitAll, 12}, {blockLoop, 3}, {evictSome, 2},
			{closeShard, 1}, {replaceAll, 3}, {swing, 6}, {use, 24},
		} {
			if r >= 0 && r < of.odds {
				trace[i].what = of.what
			}
			r -= of.odds
		}
		if i > 0 && trace[i-1].what == setCapacity && rng.IntN(4) == 0 { // while it takes effect
			trace[i].what = setCapacity
		}
	}
	return trace
}

// play waits until h is to happen, and lets it.
func (w *world) play(h happening) {
	if wait := h.at - time.Since(w.start); wait > 0 {
		time.Sleep(wait)
	} else { // a loop stood still, and others may go on at this very instant
		time.Sleep(773)
	}
	w.mu.Lock()
	w.calm = w.real()
	w.mu.Unlock()
	switch h.what {
	case jumpClock:
		if w.bursts && h.pick%4 == 0 {
			w.jumpInBursts(h.pick)
		} else {
			w.jump(1 + int(h.pick%12))
		}
		return
	case replaceOne, replaceAll, swing, setCapacity:
		w.steer(h.what, h.pick)
		return
	case drainAll, cancelDrain:
		w.drainAll(h.what == cancelDrain, h.pick)
		return
	case endByHand:
		w.endOne(w.slots[h.slot], h.pick)
		return
	case visitAll:
		w.visitAll(h.pick)
		return
	case closeShard:
		w.closeShard(w.slots[h.slot].home)
		return
	case evictSome:
		w.evictSome(h.pick)
		return
	case blockLoop:
		w.blockLoop(w.slots[h.slot].home, h.pick)
		return
	}
	s := w.slots[h.slot]
	w.mu.Lock()
	blocked := s.home.isBlocked()
	w.mu.Unlock()
	if blocked {
		return // nothing happens to its connections but on the loop
	}
	s.home.do(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.checkAll()
		w.happen(s, h.what, h.pick)
	})
}

// happen lets something happen to the connection in s, or begins one; w.mu is
// held.
func (w *world) happen(s *slot, what int, pick uint64) {
	if s.life == nil {
		w.begin(s, pick)
	} else {
		w.event(s, what, pick)
	}
}

// mayBeClosed reports whether a Track at h may fail with err, because a Close is under way that
// calls callbacks, and they track connections; w.mu is held.
func (w *world) mayBeClosed(h *home, err error) bool {
	return err == idle.ErrClosed && w.closing || err == idle.ErrShardClosed && h.closing
}

// begin tracks a connection in s; w.mu is held.
func (w *world) begin(s *slot, pick uint64) {
	if pick/8%8 > 0 && w.drain != nil && !w.drain.isDone() {
		return // a server that is drained tracks few new ones
	}
	if s.used == len(simConns[s.n]) {
		return // each that a drain ends may bring another one
	}
	l := w.newLife(s, pick)
	s.conn = s.next()
	l.conn = s.conn
	tracked := s.home.track(s.conn, l, hooksOf(l))
	if err := w.attempt(l, tracked); err != nil && !w.mayBeClosed(s.home, err) {
		w.errorf("at %v: Track: %v", w.now(), err)
	}
	if tracked != nil {
		s.used-- // it may be tried again
		return
	}
	s.life = l
	w.tracked++
	if d := w.drain; d != nil && w.now() <= d.given {
		d.came = append(d.came, l)
	}
}

// meddle has a callback do something to a connection of the same home, its own
// or another; w.mu is held. It does so only where nothing else can be about to
// do something to that one at this very moment, as the ledger would not know
// which was first.
func (l *life) meddle(where string, selfOnly bool) {
	w := l.world
	pick := w.chance(where, l.slot.n)
	if w.quiet || pick%4 != 0 {
		return
	}
	s := l.slot
	if other := w.slots[pick/4%uint64(len(w.slots))]; !selfOnly && other.home == s.home {
		s = other
	}
	if s == l.slot && s.life != l && s.life != nil || s != l.slot && s.life.underWay() {
		return
	}
	if where != "Ping" && s.life != nil && s.life.mayBePinged() {
		return // a Ping that it has overtaken may be about to begin
	}
	what := odds[pick/64%uint64(len(odds))]
	w.happened["meddled"]++
	w.happen(s, what, pick/4096)
}

// control has a callback replace a policy or the capacity, if nothing is due for another connection:
// the ledger wouldn't know whether the pass has looked at that before; w.mu is held. From then on
// the capacity that was before evicts l no more, even at this instant.
func (l *life) control(where string) {
	w := l.world
	pick := w.chance(where+" controls", l.slot.n)
	if w.quiet || w.closing || pick%4 != 0 || w.isBlocked() || slices.ContainsFunc(w.slots, func(s *slot) bool {
		return s.life != nil && s.life != l && s.life.live() && s.life.underWay()
	}) {
		return
	}
	w.happened["controlled"]++
	if pick /= 4; pick%2 == 0 {
		w.capacitate(pick / 2)
		l.spared = w.now()
	} else if i := int(pick / 2 % uint64(len(w.phases))); w.phases[i] != l.phase {
		w.replacePhase(i, pick/16)
	}
}

// underWay reports whether something is being done to l at this moment, or may
// be, by another goroutine; w.mu is held.
func (l *life) underWay() bool {
	if l == nil {
		return false
	}
	if l.expired || l.conn.TimedOut() || l.asked || l.pinged || l.telling || l.answeredAt == l.world.now() {
		return true
	}
	return !l.world.isCalm() && l.mayBegin()
}

// mayBegin reports whether the tracker may call a function of l's owner at this moment, of those
// that run beside others; w.mu is held.
func (l *life) mayBegin() bool {
	return l.mayBeTold() || slices.ContainsFunc(l.ledger.spans(), func(s span) bool {
		return l.world.now() >= s.lo && (s.reason == 0 || l.keeper)
	})
}

// mayBePinged reports whether a Ping may be about to begin; w.mu is held.
func (l *life) mayBePinged() bool {
	_, ok := l.ledger.may(0, "ping", l.world.now())
	return ok && !l.pinged
}

// isCalm reports whether an event is all that happens at this moment: no callback has begun, so all
// that have begun before are known to the world; w.mu is held.
func (w *world) isCalm() bool { return w.calm == w.real() }

// event lets something happen to the connection in s; w.mu is held.
func (w *world) event(s *slot, what int, pick uint64) {
	l, c, now := s.life, s.conn, w.now()
	g := l.ledger
	n := int(pick % mostUnsent)
	l.moves()
	switch what {
	case receive, touch, enterPhase: // the owner has read it
		l.unread = false
	}
	switch what {
	case receive:
		g.arrived(now)
		g.read.pays(g.policy.MinReadRate, n, now, g)
		c.Received(n)
	case touch:
		g.arrived(now)
		c.Touch()
	case send:
		g.out = now
		g.write.pays(g.policy.MinWriteRate, n, now, g)
		c.Sent(n)
	case awaitRead:
		g.read.await(now)
		c.AwaitRead()
	case pauseRead:
		g.read.pause(now)
		c.PauseRead()
		ends := w.stalls || slices.ContainsFunc(g.spans(), func(s span) bool { return s.reason > 0 && now >= s.lo })
		if pick%4 > 0 && c.Deliver() {
			if ends { // a pass that was about to end it looks again
				g.averted = now
			}
			if l.expired {
				w.errorf("at %v: Deliver = true after Expire: %v", now, l)
			}
		}
	case use:
		g.used = now
		c.Use()
	case awaitWrite:
		g.write.await(now)
		l.unsent.Store(int64(n))
		c.AwaitWrite()
	case pauseWrite:
		g.write.pause(now)
		l.receives = now + time.Duration(pick>>8%64)*w.tick
		c.PauseWrite()
	case doBeat:
		if h := g.policy.Heartbeat; h.Passive {
			g.beat = now
		}
		c.Beat()
	case enterPhase:
		ph := w.phases[pick%uint64(len(w.phases))]
		l.phase = ph
		g.enter(w.told(ph), now)
		c.Enter(ph)
	case trackAgain:
		w.trackAgain(s, pick)
	case arriveUnread:
		// It isn't read yet. If only the kernel knows of it, nobody knows which of two pings it answers.
		if l.unread = pick%2 == 0; !l.unread && (g.policy.Heartbeat.Interval == 0 || g.policy.Heartbeat.Passive) {
			l.kernelIn = now
		}
	case closeIt:
		w.end(s)
	}
}

// trackAgain tracks what is tracked, or what has timed out, which is refused.
func (w *world) trackAgain(s *slot, pick uint64) {
	l := s.life
	if l.live() {
		if err := s.home.track(s.conn, l, hooksOf(l)); err != idle.ErrTracked && !w.mayBeClosed(s.home, err) {
			w.errorf("at %v: second Track: %v", w.now(), err)
		}
	} else {
		if err := s.home.track(s.conn, l, hooksOf(l)); err != idle.ErrTracked && !w.mayBeClosed(s.home, err) {
			w.errorf("at %v: Track of one that has ended: %v", w.now(), err)
		}
		l.closed.Store(true)
		s.life = nil
		w.begin(s, pick)
	}
}

// end closes the connection in s; w.mu is held.
func (w *world) end(s *slot) {
	l := s.life
	was := s.conn.Stop()
	if was != l.live() {
		w.errorf("at %v: Close = %v of %v", w.now(), was, l)
	}
	l.closed.Store(true)
	if was {
		w.gone++
		l.hasEnded(0, "", 0)
	}
	s.life = nil
	if s.conn.Stop() {
		w.errorf("at %v: closed twice: %v", w.now(), l)
	}
}
