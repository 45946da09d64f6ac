package idle

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var stressOps = flag.Int("ops", 0, "how many operations TestStress does; 2,000,000 by default, 500,000 with -short")

// TestStress has connections touched, switched, closed, timed out, tracked anew
// and handed back by a tracker that is closed, all at once and as fast as the
// machine can, and looks for outcomes that are lost or double. In the long form:
//
//	go test ./idle -run Stress -v -args -ops 10000000
func TestStress(t *testing.T) {
	left := *stressOps
	switch {
	case left > 0:
	case testing.Short():
		left = 500_000
	default:
		left = 2_000_000
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var sum Stats
	begun, ops, visits, replaced := time.Now(), 0, int64(0), int64(0)
	all := func() bool {
		return sum.Closed > 0 && sum.Misses > 0 && visits > 0 && replaced > 0 && sum.Drained > 0 && sum.Shed > 0
	}
	for round := uint64(0); (ops < left || !all() && round < 20) && !t.Failed(); round++ { // a slow machine may need more rounds
		n := 500_000
		s := newStress(t, seed+round)
		st := s.run(n)
		ops += n
		visits += s.visits.Load()
		replaced += s.replaced.Load()
		sum.Tracked += st.Tracked
		sum.Closed += st.Closed
		sum.Live += st.Live
		for _, n := range st.TimedOut {
			sum.Misses += n
		}
		sum.Drained += st.Drained
		sum.Shed += st.Shed
	}
	t.Logf("%d operations in %v: %d tracked, of which %d gone, %d timed out", ops, time.Since(begun), sum.Tracked, sum.Closed, sum.Misses)
	t.Logf("%d visits, %d policies replaced; %d drained, %d shed", visits, replaced, sum.Drained, sum.Shed)
	if !all() {
		t.Error("nothing happened")
	}
}

// A stress is one tracker, from its beginning to its end.
type stress struct {
	t       *testing.T
	seed    uint64
	tracker *Tracker
	phases  []*Phase
	slots   []stressed
	mu      sync.Mutex
	all     []*racer
	exempt  *Phase // without limits

	visits, replaced atomic.Int64
	ends             stressedEnds
}

// A stressed connection is used by all workers, but by one reader and one
// writer at a time.
type stressed struct {
	slotted
	reading, writing sync.Mutex
}

const busySlots = 16

func newStress(t *testing.T, seed uint64) *stress {
	s := &stress{t: t, seed: seed, slots: make([]stressed, busySlots+256)}
	s.ends.told, s.ends.reasons = map[string]int{}, map[Reason]uint64{}
	first := racePolicy
	first.Name = "phase 0"
	opts := &Options{Tick: time.Millisecond, Shards: 1 + int(seed%3), Label: s.label, OnEnds: s.onEnds}
	tr, err := New(first, opts)
	check(t, err)
	s.tracker, s.phases = tr, []*Phase{tr.phase}
	for i, p := range []Policy{
		{},
		{IdleTimeout: time.Millisecond},
		{PhaseTimeout: 2 * time.Millisecond, ReadTimeout: time.Millisecond},
		{Heartbeat: Heartbeat{Interval: time.Millisecond, Passive: true}, MaxAge: 10 * time.Millisecond},
		{MinReadRate: Rate{1e6, time.Millisecond}, MinWriteRate: Rate{1e6, time.Millisecond}},
	} {
		p.Name = fmt.Sprint("phase ", i+1)
		ph, err := tr.Phase(p)
		check(t, err)
		s.phases = append(s.phases, ph)
	}
	for _, sh := range tr.own {
		sh.stride = []int{1, 5, looksPerLock}[seed%3]
	}
	s.exempt, err = tr.Phase(Policy{Name: "exempt"})
	check(t, err)
	return s
}

// run does n operations, and closes the tracker in the midst of the last of
// them.
func (s *stress) run(n int) Stats {
	const workers = 4
	var wg sync.WaitGroup
	var done atomic.Int64
	for i := range uint64(workers) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(s.seed, i))
			for range n / (workers + 1) {
				s.operate(rng)
				done.Add(1)
			}
		})
	}
	wg.Go(func() { s.loop(n/(workers+1), &done) })
	s.steer(&wg)
	for done.Load() < int64(n*9/10) && !s.t.Failed() {
		time.Sleep(time.Millisecond)
	}
	for begun := time.Now(); !s.isSteered() && !s.t.Failed() && time.Since(begun) < time.Minute; { // on a busy machine one takes its time
		time.Sleep(time.Millisecond)
	}
	live, err := s.tracker.Close()
	if err != nil {
		s.t.Errorf("Close: %v", err)
	}
	wg.Wait()
	s.handed(live)
	return s.check()
}

// operate does something to a connection that others use as well. Of the slots
// the first few are in use all the time; the others are left to time out, and
// closed at about that moment, or entered.
func (s *stress) operate(rng *rand.Rand) {
	if rng.IntN(20) == 0 {
		k := &s.slots[busySlots+rng.IntN(len(s.slots)-busySlots)]
		switch {
		case k.timedOut():
			s.begin(&k.slotted, s.tracker.Track)
		case rng.IntN(10) == 0:
			s.use(rng, k, rng.IntN(10))
		}
		return
	}
	k, what := &s.slots[rng.IntN(busySlots)], rng.IntN(1000)
	if what == 999 {
		s.begin(&k.slotted, s.tracker.Track)
		return
	}
	s.use(rng, k, what)
}

// timedOut reports whether there is no live connection.
func (k *stressed) timedOut() bool {
	k.using.RLock()
	defer k.using.RUnlock()
	return k.conn == nil || !k.conn.Live()
}

func (s *stress) use(rng *rand.Rand, k *stressed, what int) {
	k.using.RLock()
	defer k.using.RUnlock()
	if k.cur.Load() == nil {
		return
	}
	c := k.conn
	switch {
	case what < 5:
		if c.Stop() {
			k.cur.Load().outcomes.Add(1)
		}
	case what < 100:
		c.Enter(s.phases[rng.IntN(len(s.phases))])
	case what < 300 && k.reading.TryLock():
		s.read(rng, c)
		k.reading.Unlock()
	case what < 500 && k.writing.TryLock():
		s.write(rng, c)
		k.writing.Unlock()
	case what < 530:
		c.Use()
	case what < 550:
		c.Beat()
	case what < 555:
		s.tracker.Stats()
	default:
		c.Touch()
	}
}

func (s *stress) read(rng *rand.Rand, c *Conn) {
	switch rng.IntN(3) {
	case 0:
		c.AwaitRead()
		c.Received(rng.IntN(2000))
		c.PauseRead()
		c.Deliver()
	case 1:
		c.AwaitRead()
	case 2:
		c.Received(rng.IntN(2000))
		c.PauseRead()
		c.Deliver()
	}
}

func (s *stress) write(rng *rand.Rand, c *Conn) {
	switch rng.IntN(4) {
	case 0:
		c.AwaitWrite()
		c.Sent(rng.IntN(2000))
		c.PauseWrite()
	case 1:
		c.AwaitWrite()
	case 2:
		c.Sent(rng.IntN(2000))
		c.PauseWrite()
	case 3:
		c.RestartWrite()
	}
}

// begin tracks a new connection, once nobody uses the previous one.
func (s *stress) begin(k *slotted, track func(*Conn, any, *Hooks) error) {
	k.using.Lock()
	defer k.using.Unlock()
	o := &racer{}
	o.label = s.newLabel()
	if k.conn != nil && k.conn.Stop() {
		k.cur.Load().outcomes.Add(1)
	}
	c := &Conn{}
	switch err := track(c, o, raceHooks); err {
	case nil:
		k.conn = c
		k.cur.Store(o)
		s.mu.Lock()
		s.all = append(s.all, o)
		s.mu.Unlock()
	case ErrClosed:
	default:
		s.t.Errorf("Track: %v", err)
	}
}

// loop is an event loop with connections of its own, which it does something to
// whenever no pass is to be run. It closes its shard about when the tracker is
// closed, before or after.
func (s *stress) loop(n int, done *atomic.Int64) {
	passes := make(chan func(), 1)
	shard, err := s.tracker.NewShard(func(pass func()) error { passes <- pass; return nil })
	if err != nil {
		s.t.Error(err)
		return
	}
	rng := rand.New(rand.NewPCG(s.seed, 1000))
	slots := make([]slotted, 16)
	shard.stride = 1 + int(s.seed%2)
	for range n {
		select {
		case pass := <-passes:
			pass()
		default:
		}
		s.operateOnLoop(rng, &slots[rng.IntN(len(slots))], shard)
		done.Add(1)
	}
	live, err := shard.Close()
	if err != nil {
		s.t.Errorf("Close of the shard: %v", err)
	}
	s.handed(live)
}

func (s *stress) operateOnLoop(rng *rand.Rand, k *slotted, shard *Shard) {
	c := k.conn
	switch what := rng.IntN(1000); {
	case k.cur.Load() == nil || what < 100 && !c.Live() || what == 0:
		s.begin(k, shard.Track)
	case what < 3:
		if c.Stop() {
			k.cur.Load().outcomes.Add(1)
		}
	case what < 10:
		c.Enter(s.phases[rng.IntN(len(s.phases))])
	case what < 300:
		s.read(rng, c)
	case what < 600:
		s.write(rng, c)
	case what < 650:
		c.Beat()
	}
}

func (s *stress) handed(live []any) {
	for _, o := range live {
		o.(*racer).outcomes.Add(1)
	}
}

// check makes up the balance. What the last users of a slot left live when the
// tracker was closed has been handed back.
func (s *stress) check() Stats {
	var expired, timedOut, none, more uint64
	for _, o := range s.all {
		expired += uint64(o.expired.Load())
		switch n := o.outcomes.Load(); {
		case n == 0:
			none++
		case n > 1:
			more++
		}
	}
	st := s.tracker.Stats()
	for _, n := range st.TimedOut {
		timedOut += n
	}
	timedOut += st.Drained + st.Shed
	if st.Causes["idle"]+st.Causes["by hand"] != st.Shed || len(st.Causes) > 2 {
		s.t.Errorf("seed %d: %+v", s.seed, st)
	}
	if none+more > 0 {
		s.t.Errorf("seed %d: of %d outcomes %d are lost, and %d double: %+v", s.seed, len(s.all), none, more, st)
	}
	if st.Tracked != uint64(len(s.all)) || st.Live != 0 || timedOut != expired || st.Tracked != st.Closed+st.HandedBack+timedOut || st.Panics > 0 {
		s.t.Errorf("seed %d: %d tracked, %d expired: %+v", s.seed, len(s.all), expired, st)
	}
	for _, sh := range s.tracker.own {
		if n := sh.wheel.Len(); n != 0 {
			s.t.Errorf("seed %d: %d connections are left in a wheel", s.seed, n)
		}
	}
	s.checkEnds(st)
	return st
}

// steer visits, replaces policies, drains, and ends some by hand, until the tracker is closed.
func (s *stress) steer(wg *sync.WaitGroup) {
	every := func(seed uint64, rest time.Duration, do func(*rand.Rand)) {
		rng := rand.New(rand.NewPCG(s.seed, seed))
		wg.Go(func() {
			for !s.tracker.isClosed() && !s.t.Failed() {
				do(rng)
				time.Sleep(rest)
			}
		})
	}
	every(2001, 2*time.Millisecond, s.replace)
	every(2004, time.Millisecond, s.drainOnce)
	every(2008, 100*time.Microsecond, s.endOne)
	every(2009, 100*time.Microsecond, s.lastUntilDrained)
	every(2012, 500*time.Microsecond, func(*rand.Rand) { s.tracker.RecentEnds() })
	for i := range uint64(2) {
		every(2002+i, time.Millisecond, s.visitOnce)
	}
}

// isSteered reports whether all has happened once.
func (s *stress) isSteered() bool {
	st := s.tracker.Stats()
	return s.visits.Load() > 0 && st.Drained > 0 && st.Causes["by hand"] > 0 && st.Causes["idle"] > 0
}

// replace replaces the policy of any phase by another one.
func (s *stress) replace(rng *rand.Rand) {
	ph, p := s.phases[rng.IntN(len(s.phases))], racePolicy
	p.IdleTimeout *= time.Duration(1 + rng.IntN(3))
	p.MaxAge *= time.Duration(1 + rng.IntN(3))
	if rng.IntN(2) == 0 {
		p.Heartbeat, p.MinReadRate, p.PhaseTimeout, p.ExplicitUse = Heartbeat{}, Rate{}, 3*time.Millisecond, false
	}
	if err := ph.SetPolicy(p); err != nil && err != ErrClosed {
		s.t.Errorf("Replace by %+v: %v", p, err)
	}
	s.replaced.Add(1)
}

// visitOnce visits all connections, and ends one now and then.
func (s *stress) visitOnce(rng *rand.Rand) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rng.IntN(8) == 0 { // it is given up
		time.AfterFunc(time.Duration(rng.IntN(int(2*time.Millisecond))), cancel)
	}
	returned := atomic.Bool{}
	err := s.tracker.Visit(ctx, func(i Info) {
		if returned.Load() || i.Owner.(*racer).label != i.Label() || i.Age < i.Idle || i.Phase == "" || i.EndsBy == 0 && i.EndsIn != 0 {
			s.t.Errorf("seed %d: Visit has returned: %v; %+v", s.seed, returned.Load(), i)
		}
		switch rng.IntN(60) {
		case 0:
			i.End("by hand")
		case 1:
			i.EndIfIdle("idle")
		}
	})
	returned.Store(true)
	switch {
	case err == nil:
		s.visits.Add(1)
	case err != ErrClosed && ctx.Err() == nil:
		s.t.Errorf("Visit: %v", err)
	}
}

// drainOnce drains for a while.
func (s *stress) drainOnce(rng *rand.Rand) {
	ms := func(n int) time.Duration { return time.Duration(rng.IntN(n)) * time.Millisecond }
	d := Drain{Duration: ms(5), CloseDelay: ms(2)}
	if rng.IntN(2) == 0 {
		d.ForceAfter = 5 * time.Millisecond // also while OnTimeout is running
	}
	o, err := s.tracker.Drain(d)
	if err != nil {
		s.t.Errorf("Drain: %v", err)
		return
	}
	if rng.IntN(4) == 0 {
		if again, err := s.tracker.Drain(Drain{}); err == nil {
			o = again
		}
	}
	time.Sleep(ms(30))
	if rng.IntN(2) == 0 { // its visits may have to wait for many others
		for begun := time.Now(); s.tracker.Draining() == o && time.Since(begun) < 30*time.Second && s.tracker.Stats().Drained == 0; {
			time.Sleep(time.Millisecond)
		}
	}
	o.Cancel()
	select {
	case <-o.Done():
	default:
		s.t.Errorf("seed %d: cancelled, and not done", s.seed)
	}
}

// endOne ends a connection by hand.
func (s *stress) endOne(rng *rand.Rand) {
	k := &s.slots[rng.IntN(len(s.slots))]
	k.using.RLock()
	defer k.using.RUnlock()
	if k.cur.Load() != nil {
		k.conn.End("by hand")
	}
}

// lastUntilDrained tracks a connection that no limit ends.
func (s *stress) lastUntilDrained(rng *rand.Rand) {
	k := &s.slots[busySlots+rng.IntN(len(s.slots)-busySlots)]
	s.begin(&k.slotted, s.tracker.Track)
	k.using.RLock()
	defer k.using.RUnlock()
	if k.conn != nil && k.conn.Live() { // nil if the tracker was closed before
		k.conn.Enter(s.exempt)
	}
}

// stressedEnds are the ends that a stress was told of. The reporter alone uses what is not
// atomic, until it has ended.
type stressedEnds struct {
	tracked atomic.Int64 // labels that were given
	calls   int
	told    map[string]int
	reasons map[Reason]uint64
	busy    atomic.Bool
}

func (s *stress) newLabel() string { return fmt.Sprint(s.ends.tracked.Add(1)) }

func (s *stress) label(owner any) string { return owner.(*racer).label }

// onEnds is slow now and then.
func (s *stress) onEnds(ends []End) {
	n := &s.ends
	if n.busy.Swap(true) {
		s.t.Error("two calls of OnEnds at once")
	}
	defer n.busy.Store(false)
	for _, e := range ends {
		n.told[e.Label]++
		n.reasons[e.Reason]++
		if e.Age < 0 || e.Idle < 0 || e.Late < 0 || e.Reason != 0 && e.Phase == "" || e.Time.IsZero() {
			s.t.Errorf("seed %d: %+v", s.seed, e)
		}
	}
	if n.calls++; n.calls%50 == 0 {
		time.Sleep(30 * time.Millisecond)
	}
	clear(ends) // it is lent, and may be changed
}

// checkEnds makes up the balance of ends. All connections have ended.
func (s *stress) checkEnds(st Stats) {
	s.tracker.ends.Running.Await(context.Background())
	n := &s.ends
	told, byReason := uint64(0), map[Reason]uint64{0: st.Closed + st.HandedBack}
	for label, times := range n.told {
		if told += uint64(times); times > 1 {
			s.t.Errorf("seed %d: %q is told %d times", s.seed, label, times)
		}
	}
	for _, of := range st.ByPhase {
		for r, n := range of {
			byReason[r] += n
		}
	}
	if lost := s.tracker.Stats().EndsLost; told+lost != st.Tracked || lost == 0 && !maps.Equal(n.reasons, positive(byReason)) {
		s.t.Errorf("seed %d: of %d ends, %d are told, and %d lost: %v, want %v", s.seed, st.Tracked, told, lost, n.reasons, byReason)
	}
	if st.Lifetime.Count()+st.HandedBack != st.Tracked {
		s.t.Errorf("seed %d: %+v", s.seed, st)
	}
}

// positive removes the counts of m that are zero.
func positive(m map[Reason]uint64) map[Reason]uint64 {
	maps.DeleteFunc(m, func(_ Reason, n uint64) bool { return n == 0 })
	return m
}

// These tests are for the race detector, in real time: all that may happen at
// once does, with timeouts of a few ticks. They say nothing about when.

func raceTime() time.Duration {
	if testing.Short() {
		return 200 * time.Millisecond
	}
	return time.Second
}

var racePolicy = Policy{
	ExplicitUse: true, IdleTimeout: 3 * time.Millisecond, ReadTimeout: 2 * time.Millisecond, WriteTimeout: 2 * time.Millisecond,
	MaxAge: 20 * time.Millisecond, MaxAgeJitter: 5 * time.Millisecond, MaxAgeGrace: 2 * time.Millisecond,
	Heartbeat:   Heartbeat{Interval: time.Millisecond, Timeout: time.Millisecond, Misses: 2},
	MinReadRate: Rate{1000, 5 * time.Millisecond}, MinWriteRate: Rate{1000, 5 * time.Millisecond},
}

// A racer is one tracking of a Conn, which counts its outcomes.
type racer struct {
	outcomes atomic.Int32
	expired  atomic.Int32
	n        int
	label    string
}

var raceHooks = &Hooks{
	Ping:      func(any) error { return nil },
	OnTimeout: func(o any, _ *TimeoutError) bool { r := o.(*racer); r.n++; return r.n%3 == 0 }, // never at once with itself
	OnDrain:   func(any) {},
	Probe: func(any, Reason) SocketState {
		return SocketState{In: 5 * time.Millisecond, Unread: rand.IntN(8) == 0} // unread input now and then
	},
	Expire: func(o any, _ *TimeoutError) { o.(*racer).outcomes.Add(1); o.(*racer).expired.Add(1) },
}

// slotted is a Conn with those who use it. The lock is that of a server which
// has all users of a connection gone before it serves the next one.
type slotted struct {
	conn  *Conn // nil before the first one
	using sync.RWMutex
	cur   atomic.Pointer[racer]
}

// TestRaceTrackerClose closes a tracker while connections come and go.
func TestRaceTrackerClose(t *testing.T) {
	for begun := time.Now(); time.Since(begun) < raceTime()/2; {
		tr, err := New(racePolicy, &Options{Tick: time.Millisecond, Shards: 3})
		check(t, err)
		var tracked, outcomes atomic.Int64
		hooks := plainHooks()
		hooks.Ping = func(any) error { return nil }
		hooks.Expire = func(any, *TimeoutError) { outcomes.Add(1) }
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for c := new(Conn); tr.Track(c, c, hooks) == nil; c = new(Conn) {
					tracked.Add(1)
					c.Touch()
					if rand.IntN(2) == 0 && c.Stop() {
						outcomes.Add(1)
					}
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		live, err := tr.Close()
		check(t, err)
		wg.Wait()
		if got := outcomes.Load() + int64(len(live)); got != tracked.Load() {
			t.Fatalf("%d tracked, %d outcomes: %+v", tracked.Load(), got, tr.Stats())
		}
	}
}
