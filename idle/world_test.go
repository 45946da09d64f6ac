package idle

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A world is one run of the simulation.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	start   time.Time
	tick    time.Duration
	age     Policy // the fields about age, for all policies
	stalls  bool
	wraps   bool // the clock's stamps wrap in it
	looped  bool
	tracker *Tracker
	phases  []*Phase // the first is the tracker's

	track     func(*Conn, Owner) error
	on        func(func()) // runs a function where connections may be used
	closeLoop func() []Owner
	slots     []*slot

	mu       sync.Mutex // held while an event and its entry in the ledger are made
	quiet    bool       // nobody stalls or blocks any more
	closing  bool       // what has expired is reaped at once
	over     atomic.Bool
	tracked  uint64
	gone     uint64
	pings    uint64
	kept     uint64
	timedOut [numReasons]uint64
}

// A slot is a Conn, which one connection after the other uses.
type slot struct {
	conn Conn
	life *life // nil when not tracked
}

// A life is one tracking of a Conn, and its owner.
type life struct {
	world  *world
	slot   *slot
	owner  Owner
	ledger *ledger

	waiter   bool // does not report the ends of waits
	probed   bool
	kernelIn time.Duration // when bytes arrived of which nobody told

	asked    bool // a Keep is running
	asking   Reason
	answer   bool
	probedAt time.Duration
	expired  bool
	endedAt  time.Duration
	closed   atomic.Bool // Close has returned
}

func (l *life) live() bool  { return !l.expired && !l.closed.Load() }
func (l *life) self() *life { return l }

func (l *life) String() string {
	return fmt.Sprintf("%T expired=%v closed=%v %+v", l.owner, l.expired, l.closed.Load(), *l.ledger)
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// rng2 is for callbacks: a random number that does not disturb the schedule.
func (w *world) rng2() int { return int(time.Now().UnixNano()/7919) % 8 }

// mostStall is how many ticks a stall takes at most, and a bit.
const mostStall = 37

// stall has whoever calls it stand still for a while, now and then.
func (w *world) stall() {
	w.mu.Lock()
	stall := w.stalls && !w.quiet && w.rng2() == 1
	w.mu.Unlock()
	if stall {
		time.Sleep(w.tick*time.Duration(w.now()%mostStall) + 12345)
	}
}

// checkAll looks for what should have happened and did not; w.mu is held.
func (w *world) checkAll() {
	if w.stalls {
		return
	}
	for _, s := range w.slots {
		if l := s.life; l != nil && !l.expired && !l.asked {
			if late, ok := l.ledger.overdue(w.now()); ok {
				w.t.Errorf("at %v: late: %v\n%v", w.now(), late, l)
			}
		}
	}
}

// enter is how every callback begins. It returns false if the life is over
// meanwhile, which is no fault; that it was over before is one.
func (l *life) enter(name string) (now time.Duration, ok bool) {
	w := l.world
	if l.closed.Load() || w.over.Load() {
		w.t.Errorf("at %v: %s began after Close had returned: %v", w.now(), name, l)
	}
	w.mu.Lock()
	return w.now(), !l.closed.Load()
}

func (l *life) Expire(err *TimeoutError) {
	now, ok := l.enter("Expire")
	defer l.world.stall()
	defer l.world.mu.Unlock()
	w := l.world
	w.timedOut[err.Reason]++
	if !ok {
		return
	}
	if l.expired {
		w.t.Errorf("at %v: expired twice: %v", now, l)
	}
	l.checkTimeout("Expire", err, now)
	if _, ok := l.owner.(Keeper); ok && (l.asking == 0 || l.answer) {
		w.t.Errorf("at %v: Expire by %v, but Keep was asked about %v and answered %v: %v", now, err, l.asking, l.answer, l)
	}
	if l.probed && err.Reason != ReasonMaxAge && !w.stalls && l.probedAt != now {
		w.t.Errorf("at %v: Expire by %v without a Probe: %v", now, err, l)
	}
	l.expired, l.endedAt = true, now
	if w.rng2() < 3 { // many owners close at once
		if l.slot.conn.Close() {
			w.t.Errorf("at %v: Close in Expire = true: %v", now, l)
		}
		l.closed.Store(true)
		l.slot.life = nil
	}
}

// checkTimeout checks that err is true at this moment; w.mu is held.
func (l *life) checkTimeout(name string, err *TimeoutError, now time.Duration) {
	w := l.world
	if s, ok := l.ledger.may(err.Reason, err.Reason.String(), now); !ok {
		w.t.Errorf("at %v: %s too early: %v; %v\n%v", now, name, err, s, l)
	}
	if late, ok := l.ledger.overdue(now); ok && !w.stalls && name == "Keep" {
		w.t.Errorf("at %v: %s by %v, but late: %v\n%v", now, name, err, late, l)
	}
}

func (l *life) Drain() {
	now, ok := l.enter("Drain")
	defer l.world.mu.Unlock()
	if !ok || l.expired {
		return
	}
	if s, ok := l.ledger.may(0, "drain", now); !ok {
		l.world.t.Errorf("at %v: Drain too early: %v\n%v", now, s, l)
	}
	l.ledger.drained, l.ledger.drainedT = true, now
}

func (l *life) Ping() error {
	now, ok := l.enter("Ping")
	w := l.world
	w.pings++
	g := l.ledger
	if ok && !l.expired {
		if s, ok := g.may(0, "ping", now); !ok && g.excused != now { // else Keep has just overtaken it
			w.t.Errorf("at %v: Ping too early: %v\n%v", now, s, l)
		}
		if l.ledger.pinging {
			w.t.Errorf("at %v: two Pings at once: %v", now, l)
		}
		g.pings = append(g.pings, now)
	}
	block := !w.looped && !w.quiet && w.rng2() == 2
	if block {
		g.stuck, g.pinging = true, true
	}
	w.mu.Unlock()
	if block {
		time.Sleep(w.tick*time.Duration(now%101) + 4321)
		w.mu.Lock()
		l.ledger.pinging = false
		w.mu.Unlock()
	}
	return nil
}

// keeperLife is asked before it times out.
type keeperLife struct{ *life }

func (k keeperLife) Keep(err *TimeoutError) bool {
	l, w := k.life, k.world
	now, ok := l.enter("Keep")
	if ok {
		if l.asked || l.expired {
			w.t.Errorf("at %v: Keep is asked again: %v", now, l)
		}
		l.checkTimeout("Keep", err, now)
	}
	l.asked, l.asking = true, err.Reason
	block := !w.looped && !w.quiet && w.rng2() == 3
	answer := now%3 > 0
	w.mu.Unlock()
	if block {
		time.Sleep(w.tick*time.Duration(now%53) + 3210)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l.asked, l.answer = false, answer
	l.ledger.excused = w.now()
	if answer {
		w.kept++
		l.ledger.kept(err.Reason, w.now())
	}
	return answer
}

// reaperLife is only disturbed by Expire.
type reaperLife struct{ *life }

func (r reaperLife) Reap() {
	l, w := r.life, r.world
	now, ok := l.enter("Reap")
	defer w.mu.Unlock()
	if !ok {
		return
	}
	linger := w.tracker.opts.Linger
	late := now > l.endedAt+linger+l.ledger.tolerance()+w.tick
	if early := now < l.endedAt+linger; !l.expired || early && !w.closing || late && !w.stalls {
		w.t.Errorf("at %v: Reap; expired at %v: %v", now, l.endedAt, l)
	}
	// The tracker is done with it, but its owner closes it in his own time.
}

type keeperReaperLife struct{ keeperLife }

func (k keeperReaperLife) Reap() { reaperLife{k.life}.Reap() }

// proberLife knows of bytes that arrived without being told.
type proberLife struct{ *life }

func (p proberLife) Probe() (pulse Pulse) {
	l, w := p.life, p.world
	now, ok := l.enter("Probe")
	defer w.mu.Unlock()
	l.probedAt = now
	if ok && l.kernelIn > l.ledger.in {
		pulse.In = now - l.kernelIn
		l.ledger.arrived(l.kernelIn)
	}
	return pulse
}

// waiterLife reports the beginnings of waits only.
type waiterLife struct{ *life }

func (q waiterLife) Waiting() (read, write bool) {
	_, _ = q.enter("Waiting")
	defer q.world.mu.Unlock()
	return q.ledger.read.on, q.ledger.write.on
}

type waiterKeeperLife struct {
	waiterLife
	keeperLife
	*life
}
