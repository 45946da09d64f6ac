package simulation

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A world is one run of the simulation. All that it is made of follows from its
// seed; what happens in it is a trace.
type world struct {
	t       *testing.T
	seed    int64
	rng     *rand.Rand // for what the world is made of, not for what happens
	start   time.Time
	skew    time.Duration // by how much the tracker's clock was set forward
	tick    time.Duration
	age     idle.Policy // the fields about age, for all policies
	stalls  bool
	bursts  bool // it stalls only as a whole, in bursts, and its timers fire at once afterwards
	wraps   bool // the clock's stamps wrap in it
	abrupt  bool // it ends in the midst of everything
	tracker *idle.Tracker
	phases  []*idle.Phase // the first is the tracker's
	homes   []*home
	slots   []*slot
	lie     func(idle.Policy) idle.Policy // what the ledger is told of a policy
	given   []idle.Policy                 // those that the phases had first
	others  []idle.Policy                 // others that they may have
	visits  []*simVisit                   // that are not over
	drain   *simDrain                     // that is under way, as far as is known

	complaints sync.Mutex
	faults     []fault

	mu         sync.Mutex // held while an event and its entry in the ledger are made
	stood      []stop
	quiet      bool // nobody stalls, blocks or meddles any more
	closing    bool
	closedAt   time.Duration // when it began to
	over       atomic.Bool
	lives      int
	tracked    uint64
	gone       uint64
	handedBack uint64 // by a Close
	pings      uint64
	kept       uint64
	panics     uint64
	ending     chan struct{} // closed when the world ends
	capacity   simCapacity
	ends       simEnds
	calm       time.Duration // real time of the last event, unless a callback has begun since
	moved      int           // so much has happened to all connections
	drainSeen  time.Duration // when the drain was last known not to be done
	timedOut   [numReasons]uint64
	happened   map[string]uint64 // how often what did, for the log
}

// A stop is a time for which something stood still.
type stop struct{ at, took time.Duration }

// horizon is more ticks than any limit has, and a stall before it.
const horizon = 600

// held returns for how long what was due at an instant may have been held up, by all
// stalls since its limit began to count; w.mu is held.
func (w *world) held(due time.Duration) time.Duration { return w.standing(due - horizon*w.tick) }

// held is world.held, and by loops that block.
func (l *life) held(due time.Duration) time.Duration {
	return l.world.held(due) + l.slot.home.blocked(due-horizon*l.world.tick)
}

// standing returns how long all stalls since an instant took, and the grace after
// each.
func (w *world) standing(since time.Duration) (sum time.Duration) {
	for _, s := range slices.Backward(w.stood) {
		if s.at < since {
			break
		}
		sum += s.took + (graceTicks+2)*w.tick
	}
	return sum
}

// passedBy returns when a pass has run that looks at what was due at an instant, if the
// process stood still only in bursts. There is a grace after a long stall, but a pass runs
// between two of them: what is due waits for the stall that it falls into, for the grace, and
// for the stall into which that ends. A grace before due is over after the given number of
// ticks, or never began.
func (w *world) passedBy(due time.Duration, grace int) time.Duration {
	at, excused := due, false
	for _, s := range w.stood {
		over := s.at + s.took
		switch {
		case over+time.Duration(grace)*w.tick < due || s.at > at+w.tick: // before, or when a pass had run
		case excused:
			at = max(at, over)
		case s.took >= (stallTicks-2)*w.tick:
			at, excused = max(at, over+(graceTicks+1)*w.tick), true
		default:
			at = max(at, over)
		}
	}
	return at + w.tick
}

// heldUp returns for how long after s.hi a limit may pass; w.mu is held. A heartbeat, and
// MaxAge with its grace, pass in several steps, each of which may be held up.
func (l *life) heldUp(s span) (d time.Duration) {
	w, g := l.world, l.ledger
	if !w.bursts || s.reason == 0 || s.reason == idle.ReasonHeartbeat || s.reason == idle.ReasonMaxAge ||
		s.reason == idle.ReasonMinReadRate || s.reason == idle.ReasonMinWriteRate || g.averted > 0 || g.replaced > 0 ||
		l.slot.home.blocked(s.hi-horizon*w.tick) > 0 {
		return l.held(s.hi)
	}
	unclear := time.Duration(0) // an activity just before a stall may have been in it
	for _, from := range []time.Duration{l.trackedAt, g.born, g.told, g.began, g.in, g.out, g.beat, g.read.since, g.write.since, g.used} {
		for _, s := range w.stood {
			if s.at >= from-w.tick && s.at <= from+2*w.tick {
				unclear = max(unclear, s.took)
			}
		}
	}
	const late = 4 // ticks, of which s.hi may be later than what passes
	for n := range time.Duration(late + 1) {
		for grace := range graceTicks + 2 {
			d = max(d, w.passedBy(s.hi+unclear-n*w.tick, grace)-s.hi)
		}
	}
	return d
}

// stands notes that something stands still from now on; w.mu is held.
func (w *world) stands(d time.Duration) { w.stood = append(w.stood, stop{at: w.now(), took: d}) }

// A fault is something that must not be. Its kind is the same for all that are
// alike.
type fault struct{ kind, text string }

func (w *world) errorf(format string, args ...any) {
	w.complaints.Lock()
	defer w.complaints.Unlock()
	w.faults = append(w.faults, fault{format, fmt.Sprintf(format, args...)})
}

func (w *world) failed() bool {
	w.complaints.Lock()
	defer w.complaints.Unlock()
	return len(w.faults) > 0
}

// A home is where connections live: on the tracker's own shards, or on a loop.
type home struct {
	name  string
	track func(*idle.Conn, any, *idle.Hooks) error
	do    func(func()) // runs a function where connections may be used
	loop  *loop        // nil if the driver drives it
	shard *idle.Shard
	block simBlock

	closing bool // the shard is being closed
}

// A slot is a place for one connection after the other.
type slot struct {
	conn *idle.Conn // the last one
	used int        // how many have been
	n    int
	home *home
	life *life // nil when not tracked
}

// The slots and the Conns are those of one world after the other. A jitter of the age
// depends on the address of the Conn, and this way a world is the same each time.
var (
	simSlots [6]slot
	simConns [len(simSlots)][2000]idle.Conn
)

// next returns a Conn for the next connection in s.
func (s *slot) next() *idle.Conn {
	s.used++
	return &simConns[s.n][s.used-1]
}

// onEndTakes is how long OnEnd may take, and how long Close waits for callbacks.
const onEndTakes = time.Second

// mostStall is how many ticks a stall takes at most, and a bit.
const mostStall = 37

func newWorld(t *testing.T, seed int64, lie func(idle.Policy) idle.Policy) *world {
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(uint64(seed), 0)), start: time.Now(),
		stalls: seed%2 == 1, bursts: seed%4 == 1,
		tick: tickOf(seed),
		lie:  lie, happened: map[string]uint64{},
	}
	w.age = idle.Policy{MaxAge: 100 * w.tick, MaxAgeGrace: time.Duration(seed%3) * 20 * w.tick}
	if seed%8 == 0 {
		w.age.MaxAgeJitter = 50*w.tick + 7
	}
	opts := &idle.Options{
		Tick: w.tick, Shards: 1 + w.rng.IntN(3),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Budget: visitTakes,
		Label:  w.label,
	}
	w.ending = make(chan struct{})
	w.ends = simEnds{how: int(seed % waysToTell), expected: map[string]*simEnd{}, phases: map[string]map[idle.Reason]uint64{}}
	if w.ends.how == byOnEnds {
		opts.OnEnds = w.onEnds
	}
	first := w.anyPolicy()
	first.Name = "phase 0"
	tr, err := idle.New(first, opts)
	if err != nil {
		t.Fatal(err)
	}
	w.tracker = tr
	if w.ends.how == byRecent {
		tr.RecentEnds()
	}
	ageClock(tr, agesOf[seed%4])
	w.wraps = seed%4 >= 2
	switch seed / 12 % 3 { // else the clock hardly ever runs
	case 0:
		runEasily(tr)
	case 1:
		sleepOften(tr)
	}
	w.phases = []*idle.Phase{tr.Initial()}
	for i := range 6 {
		p := idle.Policy{} // exempt
		if i > 0 {
			p = w.anyPolicy()
		}
		p.Name = fmt.Sprint("phase ", i+1)
		p.NoInterrupt = (int(seed)+i)%5 == 0
		ph, err := tr.Phase(p)
		if err != nil {
			t.Fatal(err)
		}
		w.phases = append(w.phases, ph)
	}
	w.abrupt = w.rng.IntN(2) == 0
	w.settle(int(seed / 4 % 3))
	for _, ph := range w.phases {
		w.given = append(w.given, ph.Policy())
		other := w.anyPolicy()
		other.Name = ph.Policy().Name
		w.others = append(w.others, other)
	}
	for _, s := range ownShards(tr) {
		setStride(s, w.stride())
	}
	return w
}

// agesOf are how old the clock of a world is when it begins, in ticks.
var agesOf = [...]int64{0, 1<<31 - 300, 1<<32 - 300, 5<<32 - 1000}

func tickOf(seed int64) time.Duration { return time.Duration(1+seed%3*7) * time.Millisecond }

// settle gives the slots homes: on the tracker's own shards, on a loop, or here
// and there.
func (w *world) settle(how int) {
	driver := &home{name: "driver", track: w.tracker.Track, do: func(f func()) { f() }}
	switch how {
	case 0:
		w.homes = []*home{driver}
	case 1:
		w.homes = []*home{w.newLoop("loop")}
	case 2:
		w.homes = []*home{driver, w.newLoop("loop 1"), w.newLoop("loop 2")}
	}
	for i := range simSlots {
		clear(simConns[i][:simSlots[i].used])
		simSlots[i] = slot{n: i, home: w.homes[i/2%len(w.homes)], conn: &idle.Conn{}}
		w.slots = append(w.slots, &simSlots[i])
	}
}

func (w *world) newLoop(name string) *home {
	h := &home{name: name, loop: newLoop()}
	h.do = h.loop.do
	w.newShard(h)
	return h
}

// newShard gives the loop of h a shard.
func (w *world) newShard(h *home) {
	loop := h.loop
	shard, err := w.tracker.NewShard(func(pass func()) error {
		w.stall() // of the driver alone: the loop goes on
		w.mu.Lock()
		fails := w.stalls && !w.bursts && w.chance("post", 0)%8 == 0
		if fails {
			w.stands(w.tick)
		}
		w.mu.Unlock()
		if fails {
			return io.ErrShortWrite
		}
		loop.post(pass)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	setStride(shard, w.stride())
	h.shard, h.track = shard, shard.Track
}

// stride is how many connections a step of a visit has.
func (w *world) stride() int { return 1 + int(w.seed/2%3) }

// closeShard closes the shard of a loop, which goes on with another one.
func (w *world) closeShard(h *home) {
	w.mu.Lock()
	blocked := h.isBlocked()
	w.checkAll()
	w.mu.Unlock()
	if h.loop == nil || blocked {
		return
	}
	h.do(func() {
		w.mu.Lock()
		h.closing = true
		w.mu.Unlock()
		owned, err := h.shard.Close()
		if err != nil {
			w.errorf("at %v: Close of a shard: %v", w.now(), err)
		}
		w.handed(owned)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, s := range w.slots {
			if s.home == h && s.life != nil && s.life.closed.Load() {
				s.life = nil
			}
		}
		if n := inWheel(h.shard); n != 0 {
			w.errorf("at %v: %d connections are left in the wheel of a closed shard", w.now(), n)
		}
		h.closing = false
		w.newShard(h)
	})
}

// anyPolicy returns a random policy. The age is the same in all policies of a
// world that have one.
func (w *world) anyPolicy() idle.Policy {
	tick := w.tick
	some := func(most int) time.Duration { // odd, not a multiple of anything
		return tick + 1 + time.Duration(w.rng.Int64N(int64(most)*int64(tick)))
	}
	maybe := func(most int) time.Duration {
		if w.rng.IntN(2) == 0 {
			return 0
		}
		return some(most)
	}
	rate := func() idle.Rate {
		if w.rng.IntN(3) > 0 {
			return idle.Rate{}
		}
		return idle.Rate{BytesPerSecond: 50 + w.rng.IntN(5000), Grace: some(100)}
	}
	p := idle.Policy{
		IdleTimeout: maybe(100), ReadTimeout: maybe(80), WriteTimeout: maybe(60),
		MinReadRate: rate(), MinWriteRate: rate(),
	}
	if w.rng.IntN(2) == 0 {
		p.MaxAge, p.MaxAgeJitter, p.MaxAgeGrace = w.age.MaxAge, w.age.MaxAgeJitter, w.age.MaxAgeGrace
	}
	switch w.rng.IntN(5) {
	case 0:
		p.Heartbeat = idle.Heartbeat{Interval: some(80), Timeout: some(30), Misses: w.rng.IntN(4)}
		if w.rng.IntN(2) == 0 {
			p.Heartbeat.Jitter = w.tick + time.Duration(w.rng.Int64N(int64(p.Heartbeat.Interval-w.tick)))
		}
	case 1:
		p.Heartbeat = idle.Heartbeat{Interval: some(80), Timeout: maybe(30), Misses: w.rng.IntN(3), Passive: true}
	}
	if w.rng.IntN(5) < 2 {
		p.PhaseTimeout = some(120)
	}
	if p == (idle.Policy{}) {
		p.IdleTimeout = some(50)
	}
	if p.ExplicitUse = w.rng.IntN(2) == 0; !p.ExplicitUse && p.Heartbeat.Interval > 0 && !p.Heartbeat.Passive {
		p.IdleTimeout = min(p.IdleTimeout, p.Heartbeat.Interval)
	}
	return p
}

// now is the tracker's time since the world began.
func (w *world) now() time.Duration { return time.Since(w.start) + w.skew }

// chance is a number for a choice within a callback. It depends on nothing but
// where and when that is.
func (w *world) chance(where string, slot int) uint64 {
	h := uint64(time.Since(w.start))*31 + uint64(slot)*7919
	for _, c := range where {
		h = (h + uint64(c)) * 0x9E3779B97F4A7C15
	}
	h ^= h >> 29
	return h * 0xBF58476D1CE4E5B9 >> 20
}

// stall has whoever calls it stand still for a while, now and then.
func (w *world) stall() { w.stallAs(0) }

// stallAs is stall for one of those that may call it at the same instant, by their
// numbers. They do not go on at the same one.
func (w *world) stallAs(n int) {
	w.mu.Lock()
	stall := w.stalls && !w.bursts && !w.quiet && w.chance("stall", n)%8 == 1
	d := w.tick*time.Duration(w.chance("stalled", n)%mostStall) + 12345 + time.Duration(n)*1009
	if stall {
		w.stands(d)
	}
	w.mu.Unlock()
	if stall {
		time.Sleep(d)
	}
}

// jump sets the tracker's clock forward, as when the whole process stood still:
// no timer has fired, and no goroutine has run.
func (w *world) jump(ticks int) {
	if raceEnabled {
		return
	}
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	d := time.Duration(ticks) * w.tick
	clockOf(w.tracker).Shift(d)
	w.stands(d)
	w.skew += d
	if w.bursts {
		clockOf(w.tracker).Hurry()
	}
}

// jumpInBursts is jump again and again, as in a container that is throttled.
func (w *world) jumpInBursts(pick uint64) {
	stall, between := 1+int(pick/8%40), time.Duration(1+pick/512%6)*w.tick
	for range 1 + pick/4096%60 {
		w.jump(stall)
		time.Sleep(between)
	}
}

// checkAll looks for what should have happened and did not; w.mu is held.
func (w *world) checkAll() {
	w.checkVisits()
	w.checkDrain()
	w.checkCapacity()
	for _, s := range w.slots {
		if l := s.life; l != nil && !l.expired && !l.asked && !s.home.isBlocked() {
			if late, ok := l.ledger.overdue(w.now(), l.heldUp); ok {
				w.errorf("at %v: late: %v\n%v", w.now(), late, l)
			}
		}
	}
}
