package idle

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/batch"
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
	stayers []*stayer
	lasting []*Phase // that stayers are in
	exempt  *Phase   // without limits

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
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		s.phases = append(s.phases, ph)
	}
	s.readyToVisit()
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
	switch err := track(c, o, hooksOf(o)); err {
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
	stay := s.stay(8, shard.Track)
	for range n {
		select {
		case pass := <-passes:
			pass()
		default:
		}
		s.operateOnLoop(rng, &slots[rng.IntN(len(slots))], shard)
		s.disturb(rng, stay[rng.IntN(len(stay))])
		done.Add(1)
	}
	for _, k := range stay {
		k.leaves.Store(true)
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

// A stayer is a connection that is live until the tracker is closed, or the loop's
// shard. Every visit has to call its function for it.
type stayer struct {
	conn   Conn
	owner  *racer
	leaves atomic.Bool // its shard is about to be closed
}

// lastingPolicies are those of the phases in which stayers are. Nobody passes their
// limits, but to go from one to another moves a connection in the wheel. Drains leave
// those alone that are busy.
var lastingPolicies = []Policy{
	{NoInterrupt: true},
	{NoInterrupt: true, IdleTimeout: 10 * time.Hour},
	{NoInterrupt: true, IdleTimeout: time.Hour, ReadTimeout: time.Minute},
	{NoInterrupt: true, IdleTimeout: time.Hour, ExplicitUse: true, Heartbeat: Heartbeat{Interval: 2 * time.Minute, Passive: true}},
	{NoInterrupt: true, PhaseTimeout: 3 * time.Minute, MinReadRate: Rate{100, time.Minute}, MinWriteRate: Rate{100, time.Minute}},
}

// readyToVisit has the tracker's own shards make small steps, and prepares the stayers'
// phases.
func (s *stress) readyToVisit() {
	for _, sh := range s.tracker.own {
		sh.stride = []int{1, 5, looksPerLock}[s.seed%3]
	}
	s.exempt, _ = s.tracker.Phase(Policy{Name: "exempt"})
	for i, p := range lastingPolicies {
		p.Name = fmt.Sprint("lasting ", i)
		ph, err := s.tracker.Phase(p)
		if err != nil {
			s.t.Fatal(err)
		}
		s.lasting = append(s.lasting, ph)
	}
}

// stay tracks n connections that stay. One that times out before it is in another phase
// than that of the tracker is tracked again.
func (s *stress) stay(n int, track func(*Conn, any, *Hooks) error) (all []*stayer) {
	for len(all) < n {
		k := &stayer{owner: &racer{label: s.newLabel()}}
		switch err := track(&k.conn, k.owner, hooksOf(k.owner)); err {
		case nil:
		case ErrClosed:
			s.t.Error("closed before all were tracked")
			return all
		default:
			s.t.Errorf("Track: %v", err)
			return all
		}
		k.conn.Enter(s.lasting[0])
		s.mu.Lock()
		s.all = append(s.all, k.owner)
		if k.conn.Live() {
			all = append(all, k)
			s.stayers = append(s.stayers, k)
		}
		s.mu.Unlock()
	}
	return all
}

// disturb does something to k that may move it in the wheel.
func (s *stress) disturb(rng *rand.Rand, k *stayer) {
	switch rng.IntN(4) {
	case 0:
		k.conn.Enter(s.lasting[rng.IntN(len(s.lasting))])
	case 1:
		k.conn.AwaitRead()
	case 2:
		k.conn.Received(rng.IntN(1000))
		k.conn.PauseRead()
	case 3:
		k.conn.Beat()
	}
}

// steer visits, replaces policies, drains, ends some by hand, and disturbs those that stay, until
// the tracker is closed.
func (s *stress) steer(wg *sync.WaitGroup) {
	stay := s.stay(300, s.tracker.Track)
	every := func(seed uint64, rest time.Duration, do func(*rand.Rand)) {
		rng := rand.New(rand.NewPCG(s.seed, seed))
		wg.Go(func() {
			for !s.tracker.isClosed() && !s.t.Failed() {
				do(rng)
				time.Sleep(rest)
			}
		})
	}
	every(2000, 50*time.Microsecond, func(rng *rand.Rand) { s.disturb(rng, stay[rng.IntN(len(stay))]) })
	every(2001, 2*time.Millisecond, s.replace)
	every(2004, time.Millisecond, s.drainOnce)
	every(2008, 100*time.Microsecond, s.endOne)
	every(2009, 100*time.Microsecond, s.lastUntilDrained)
	every(2012, 500*time.Microsecond, s.recall)
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
	ph, p := s.lasting[rng.IntN(len(s.lasting))], lastingPolicies[rng.IntN(len(lastingPolicies))]
	if rng.IntN(2) == 0 {
		ph, p = s.phases[rng.IntN(len(s.phases))], racePolicy
		p.IdleTimeout *= time.Duration(1 + rng.IntN(3))
		p.MaxAge *= time.Duration(1 + rng.IntN(3))
		if rng.IntN(2) == 0 {
			p.Heartbeat, p.MinReadRate, p.PhaseTimeout, p.ExplicitUse = Heartbeat{}, Rate{}, 3*time.Millisecond, false
		}
	}
	if err := ph.SetPolicy(p); err != nil && err != ErrClosed {
		s.t.Errorf("Replace by %+v: %v", p, err)
	}
	s.replaced.Add(1)
}

// visitOnce visits all connections, and ends one now and then. It has to visit those that stay.
func (s *stress) visitOnce(rng *rand.Rand) {
	seen := map[any]int{}
	s.mu.Lock()
	stay := s.stayers[:len(s.stayers):len(s.stayers)]
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rng.IntN(8) == 0 { // it is given up
		time.AfterFunc(time.Duration(rng.IntN(int(2*time.Millisecond))), cancel)
	}
	returned := atomic.Bool{}
	err := s.tracker.Visit(ctx, func(i Info) {
		o := i.Owner.(*racer)
		seen[o]++
		if returned.Load() || o.label != i.Label() || i.Age < i.Idle || i.Phase == "" || i.EndsBy == 0 && i.EndsIn != 0 {
			s.t.Errorf("seed %d: Visit has returned: %v; %+v", s.seed, returned.Load(), i)
		}
		if !s.stays(o) {
			switch rng.IntN(60) {
			case 0:
				i.End("by hand")
			case 1:
				i.EndIfIdle("idle")
			}
		}
	})
	returned.Store(true)
	if err != nil {
		if err != ErrClosed && ctx.Err() == nil {
			s.t.Errorf("Visit: %v", err)
		}
		return
	}
	s.visits.Add(1)
	missed := 0
	for _, k := range stay {
		if seen[k.owner] == 0 && k.conn.Live() && !k.leaves.Load() {
			missed++
		}
	}
	if missed > 0 || len(seen) < 200 {
		s.t.Errorf("seed %d: %d of %d that stay were not visited; %d were", s.seed, missed, len(stay), len(seen))
	}
}

// stays reports whether o is that of a stayer.
func (s *stress) stays(o *racer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.stayers, func(k *stayer) bool { return k.owner == o })
}

// drainOnce drains for a while. Those that stay are busy.
func (s *stress) drainOnce(rng *rand.Rand) {
	ms := func(n int) time.Duration { return time.Duration(rng.IntN(n)) * time.Millisecond }
	o, err := s.tracker.Drain(Drain{Duration: ms(5), CloseDelay: ms(2)})
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

// recall reads what can be read of ends.
func (s *stress) recall(*rand.Rand) {
	recent := s.tracker.RecentEnds()
	labels := map[string]bool{}
	for _, e := range recent {
		if labels[e.Label] {
			s.t.Errorf("seed %d: %q has ended twice", s.seed, e.Label)
		}
		labels[e.Label] = true
	}
	if st := s.tracker.Stats(); len(recent) > batch.Kept || st.Tracked < st.Live {
		s.t.Errorf("seed %d: %d recent ends, %+v", s.seed, len(recent), st)
	}
}

// checkEnds makes up the balance of ends. All connections have ended.
func (s *stress) checkEnds(st Stats) {
	s.tracker.ends.Running.Await(context.Background())
	n := &s.ends
	told, twice := uint64(0), 0
	for _, times := range n.told {
		told += uint64(times)
		if times > 1 {
			twice++
		}
	}
	st.EndsLost = s.tracker.Stats().EndsLost
	if told+st.EndsLost != st.Tracked || twice > 0 {
		s.t.Errorf("seed %d: %d were tracked; %d ends are told, and %d lost; %d are told more than once", s.seed, st.Tracked, told, st.EndsLost, twice)
	}
	if st.EndsLost == 0 {
		for _, o := range s.all {
			if n.told[o.label] != 1 {
				s.t.Errorf("seed %d: %q is told %d times", s.seed, o.label, n.told[o.label])
				break
			}
		}
	}
	byReason, limits := map[Reason]uint64{0: st.Closed + st.HandedBack}, uint64(0)
	for _, of := range st.ByPhase {
		for r, n := range of {
			byReason[r] += n
			if r < numLimits {
				limits += n
			}
		}
	}
	for _, r := range append(Reasons(), 0) {
		counted := map[Reason]uint64{0: st.Closed + st.HandedBack, ReasonDrain: st.Drained, ReasonShed: st.Shed, ReasonEvict: st.Evicted}[r] + st.TimedOut[r]
		if byReason[r] != counted || st.EndsLost == 0 && n.reasons[r] != counted {
			s.t.Errorf("seed %d: by %v: %d are counted, %d in all phases, and %d are told", s.seed, r, counted, byReason[r], n.reasons[r])
		}
	}
	if st.Lifetime.Count()+st.HandedBack != st.Tracked || st.Lateness.Count() != limits {
		s.t.Errorf("seed %d: %+v", s.seed, st)
	}
}
