package idle

import (
	"flag"
	"fmt"
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
	begun, ops, walks, replaced, censuses, endedByPage := time.Now(), left, int64(0), int64(0), int64(0), int64(0)
	for round := uint64(0); left > 0 && !t.Failed(); round++ {
		n := min(left, 500_000)
		s := newStress(t, seed+round)
		st := s.run(n)
		left -= n
		walks += s.walks.Load()
		censuses += s.ends.censuses.Load()
		endedByPage += s.ends.endedByPage.Load()
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
	t.Logf("%d walks, %d policies replaced; %d drained, %d shed", walks, replaced, sum.Drained, sum.Shed)
	t.Logf("%d censuses, by which %d were ended", censuses, endedByPage)
	if sum.Closed == 0 || sum.Misses == 0 || walks == 0 || replaced == 0 || sum.Drained == 0 || sum.Shed == 0 || censuses == 0 || endedByPage == 0 {
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
	lasting []*Phase    // that stayers are in
	exempt  *Phase      // without limits
	made    func(*Conn) // is told of each Conn before it is tracked
	unread  bool        // peers have unread input now and then

	walks, replaced atomic.Int64
	endedByOps      atomic.Int64 // as their Progress says
	ends            stressedEnds
}

// A stressed connection is used by all workers, but by one reader and one
// writer at a time.
type stressed struct {
	slotted
	reading, writing sync.Mutex
}

const busySlots = 16

func newStress(t *testing.T, seed uint64) *stress {
	s := &stress{t: t, seed: seed, slots: make([]stressed, busySlots+256), made: func(*Conn) {}}
	s.ends.told, s.ends.reasons = map[string]int{}, map[Reason]uint64{}
	first := racePolicy
	first.Name = "phase 0"
	opts := &Options{Tick: time.Millisecond, Shards: 1 + int(seed%3), ReapDelay: time.Minute, Label: s.label, OnEnds: s.onEnds}
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
	s.readyToWalk()
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
			s.begin(rng, &k.slotted, s.tracker.Track)
		case rng.IntN(10) == 0:
			s.use(rng, k, rng.IntN(10))
		}
		return
	}
	k, what := &s.slots[rng.IntN(busySlots)], rng.IntN(1000)
	if what == 999 {
		s.begin(rng, &k.slotted, s.tracker.Track)
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
	case what < 550:
		c.Beat()
	case what < 555:
		s.tracker.Stats()
	default:
		c.Touch()
	}
}

func (s *stress) read(rng *rand.Rand, c *Conn) {
	switch rng.IntN(4) {
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
	case 3:
		var w Wait
		c.SuspendRead(&w)
		c.ResumeRead(&w)
	}
}

func (s *stress) write(rng *rand.Rand, c *Conn) {
	switch rng.IntN(5) {
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
		var w Wait
		c.SuspendWrite(&w)
		c.ResumeWrite(&w)
	case 4:
		c.RestartWrite()
		c.BeatOut(rng.IntN(2000))
	}
}

// begin tracks a new connection, once nobody uses the previous one.
func (s *stress) begin(rng *rand.Rand, k *slotted, track func(*Conn, any, *Hooks) error) {
	k.using.Lock()
	defer k.using.Unlock()
	o := &racer{}
	var owner any = o
	if rng.IntN(2) == 0 {
		r := &racingReaper{}
		o, owner = &r.racer, r
	}
	o.label, o.unread = s.newLabel(), s.unread
	if k.conn != nil && k.conn.Stop() {
		k.cur.Load().outcomes.Add(1)
	}
	c := &Conn{}
	s.made(c)
	switch err := track(c, owner, hooksOf(owner)); err {
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
		s.begin(rng, k, shard.Track)
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
		switch o := o.(type) {
		case *racer:
			o.outcomes.Add(1)
		case *racingReaper:
			o.outcomes.Add(1)
		}
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
	if st.Causes["shed"]+st.Causes["by hand"] != st.Shed || len(st.Causes) > 2 {
		s.t.Errorf("seed %d: %+v", s.seed, st)
	}
	if n := st.Drained + st.Causes["shed"]; uint64(s.endedByOps.Load()) > n || uint64(s.endedByOps.Load()) < n-min(n, 2*mostGiven) {
		s.t.Errorf("seed %d: operations say that they have ended %d, stats that it were %d", s.seed, s.endedByOps.Load(), n)
	}
	if none+more > 0 {
		s.t.Errorf("seed %d: of %d outcomes %d are lost, and %d double: %+v", s.seed, len(s.all), none, more, st)
	}
	if st.Tracked != uint64(len(s.all)) || st.Live != 0 || timedOut != expired || st.Tracked != st.Closed+timedOut || st.Panics > 0 {
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
