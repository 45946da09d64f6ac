package idle

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

var (
	simSeed  = flag.Int64("seed", -1, "the one world that the simulation runs; all by default")
	simSteps = flag.Int("steps", 2000, "how many events there are in a world of the simulation")
)

const simWorlds = 64

// TestSimulation plays random connections under random policies, in virtual
// time, against the ledger. Each world is made of its seed alone:
//
//	go test ./idle -run Simulation -args -seed N -steps M
//
// Worlds with an odd seed stall: the process stands still in the midst of
// callbacks. There timeouts may be late, and only then; never early.
func TestSimulation(t *testing.T) {
	if *simSeed >= 0 {
		playWorld(t, *simSeed)
		return
	}
	for seed := range int64(simWorlds) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { playWorld(t, seed) })
	}
}

func playWorld(t *testing.T, seed int64) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		for i := 0; i < *simSteps && !t.Failed(); i++ {
			w.step()
		}
		w.finish()
		if t.Failed() {
			t.Logf("replay: go test ./idle -run Simulation -args -seed %d -steps %d", seed, *simSteps)
		}
	})
}

// anyPolicy returns a random policy. The age is the same in all policies of a
// world that have one, since a connection has only one life.
func (w *world) anyPolicy() Policy {
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
	rate := func() Rate {
		if w.rng.IntN(3) > 0 {
			return Rate{}
		}
		return Rate{BytesPerSecond: 50 + w.rng.IntN(5000), Grace: some(100)}
	}
	p := Policy{
		IdleTimeout: maybe(100), ReadTimeout: maybe(80), WriteTimeout: maybe(60),
		MinReadRate: rate(), MinWriteRate: rate(),
	}
	if w.rng.IntN(2) == 0 {
		p.MaxAge, p.MaxAgeJitter, p.MaxAgeGrace = w.age.MaxAge, w.age.MaxAgeJitter, w.age.MaxAgeGrace
	}
	switch w.rng.IntN(4) {
	case 0:
		p.Heartbeat = Heartbeat{Interval: some(80), Timeout: some(30), Misses: w.rng.IntN(4)}
	case 1:
		p.Heartbeat = Heartbeat{Interval: some(80), Timeout: maybe(30), Misses: w.rng.IntN(3), Passive: true}
	}
	if p == (Policy{}) {
		p.IdleTimeout = some(50)
	}
	return p
}

func newWorld(t *testing.T, seed int64) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(uint64(seed), 0)), start: time.Now(),
		stalls: seed%2 == 1,
		tick:   time.Duration(1+seed%3*7) * time.Millisecond,
	}
	w.age = Policy{MaxAge: 100 * w.tick, MaxAgeGrace: time.Duration(seed%3) * 20 * w.tick}
	if seed%8 == 0 { // it depends on addresses, so these worlds are not quite the same each time
		w.age.MaxAgeJitter = 50*w.tick + 7
	}
	opts := &Options{
		Tick: w.tick, Shards: 1 + w.rng.IntN(3), Linger: 5 * time.Second,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		OnPass: func(time.Duration) { w.stall() },
	}
	tr, err := New(w.anyPolicy(), opts)
	if err != nil {
		t.Fatal(err)
	}
	w.tracker = tr
	ageClock(tr, []int64{0, 1<<31 - 300, 1<<32 - 300, 5<<32 - 1000}[seed%4])
	w.wraps = seed%4 >= 2
	w.phases = []*Phase{tr.phase}
	for i := range 4 {
		p := Policy{} // exempt
		if i > 0 {
			p = w.anyPolicy()
		}
		ph, err := tr.Phase(p)
		if err != nil {
			t.Fatal(err)
		}
		w.phases = append(w.phases, ph)
	}
	w.track, w.on = tr.Track, func(f func()) { f() }
	if seed%4 >= 2 {
		w.startLoop()
	}
	for range 6 {
		w.slots = append(w.slots, &slot{})
	}
	return w
}

// startLoop has all connections of the world live on an event loop.
func (w *world) startLoop() {
	w.looped = true
	loop := newLoop()
	shard, err := w.tracker.NewShard(func(pass func()) error {
		w.stall() // of the driver alone: the loop goes on
		if w.stalls && w.rng2() == 0 {
			return io.ErrShortWrite
		}
		loop.post(pass)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.track, w.on = shard.Track, loop.do
	w.closeLoop = func() (live []Owner) {
		loop.do(func() { live, err = shard.Close() })
		if err != nil {
			w.t.Error(err)
		}
		loop.stop()
		return live
	}
}

// step lets some time pass and then something happen to some connection.
func (w *world) step() {
	most := w.tick
	switch r := w.rng.IntN(100); {
	case r < 60:
	case r < 90:
		most *= 5
	case r < 98:
		most *= 40
	default:
		most *= 300 // the clock falls asleep
	}
	w.sleep(most)
	s := w.slots[w.rng.IntN(len(w.slots))]
	w.on(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.checkAll()
		if s.life == nil {
			w.begin(s)
		} else {
			w.event(s)
		}
	})
}

// sleep sleeps until some odd instant, at which no pass runs: those begin at
// multiples of a slack.
func (w *world) sleep(most time.Duration) {
	slack := w.tick / slackShare
	time.Sleep(time.Duration(w.rng.Int64N(int64(most))))
	if past := w.now() % slack; past == 0 {
		time.Sleep(time.Duration(1 + w.rng.Int64N(int64(slack)-1)))
	}
}

// begin tracks a connection in s; w.mu is held.
func (w *world) begin(s *slot) {
	l := &life{world: w, slot: s, ledger: newLedger(w.phases[0].policy, w.tick, w.now())}
	l.ledger.wraps = w.wraps
	if w.stalls {
		l.ledger.stall = (mostStall + 2) * w.tick
	}
	var o Owner = l
	switch w.rng.IntN(8) {
	case 0:
		o = keeperLife{l}
	case 4:
		l.waiter = true
		o = waiterLife{l}
	case 5:
		l.waiter = true
		o = waiterKeeperLife{waiterLife{l}, keeperLife{l}, l}
	case 1:
		o = reaperLife{l}
	case 2:
		o = keeperReaperLife{keeperLife{l}}
	case 3:
		l.probed = true
		o = proberLife{l}
	}
	l.owner = o
	if err := w.track(&s.conn, o); err != nil {
		w.t.Errorf("Track: %v", err)
		return
	}
	s.life = l
	w.tracked++
}

// event lets something happen to the connection in s; w.mu is held.
func (w *world) event(s *slot) {
	l, c, now := s.life, &s.conn, w.now()
	g := l.ledger
	n := w.rng.IntN(400)
	what := w.rng.IntN(24)
	if l.waiter { // its bytes come from reads and writes, which have begun
		switch {
		case (what <= 4 || what == 17 || what == 18) && !g.read.on:
			what = 8
		case what >= 5 && what <= 7 && !g.write.on:
			what = 12
		}
	}
	switch what {
	case 0, 1, 2, 3:
		g.arrived(now)
		g.read.bytes += n
		c.Received(n)
	case 4:
		g.arrived(now)
		c.Touch()
	case 5, 6, 7:
		g.out = now
		g.write.bytes += n
		c.Sent(n)
	case 8, 9:
		if l.waiter {
			g.read.begin(now, g.in)
			c.BeginRead()
		} else {
			g.read.await(now)
			c.AwaitRead()
		}
	case 10, 11:
		if !l.waiter {
			g.read.pause(now)
			c.PauseRead()
		} else if g.in >= g.read.since && !l.asked {
			g.read.pause(max(g.in, g.read.since)) // will be found out
		}
	case 12, 13, 14:
		if l.waiter {
			g.beginWrite(now)
			c.BeginWrite()
		} else {
			g.write.await(now)
			c.AwaitWrite()
		}
	case 15, 16:
		if !l.waiter {
			g.write.pause(now)
			c.PauseWrite()
		} else if g.out >= g.write.since && !l.asked {
			g.write.pause(max(g.out, g.write.since))
		}
	case 17, 18:
		g.arrived(now)
		g.beat = now
		c.Beat()
	case 19, 20:
		ph := w.phases[w.rng.IntN(len(w.phases))]
		g.enter(ph.policy, now)
		c.Enter(ph)
	case 21:
		if !l.live() {
			break // it could be tracked again
		}
		if err := w.track(c, l.owner); err != ErrTracked {
			w.t.Errorf("second Track: %v", err)
		}
	case 22:
		// Arrives, but is not read yet. Between two pings nobody would know
		// which of them it answers.
		if g.policy.Heartbeat.Interval == 0 || g.policy.Heartbeat.Passive {
			l.kernelIn = now
		}
	case 23:
		w.end(s)
	}
}

// end closes the connection in s; w.mu is held.
func (w *world) end(s *slot) {
	l := s.life
	was := s.conn.Close()
	if was != l.live() {
		w.t.Errorf("Close = %v of %v", was, l)
	}
	l.closed.Store(true)
	if was {
		w.gone++
	}
	s.life = nil
	if s.conn.Close() {
		w.t.Errorf("closed twice: %v", l)
	}
}

// finish ends the world and makes up the balance.
func (w *world) finish() {
	w.mu.Lock()
	w.quiet = true
	w.mu.Unlock()
	time.Sleep(time.Minute) // let nothing be under way
	w.sleep(w.tick)
	synctest.Wait()
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	var live []Owner
	left := w.tracker.Stats().Live
	if w.looped {
		live = w.closeLoop()
	}
	owned, err := w.tracker.Close()
	if err != nil {
		w.t.Errorf("Close: %v", err)
	}
	live = append(live, owned...)
	if uint64(len(live)) != left {
		w.t.Errorf("Close gave back %d connections of %d", len(live), left)
	}
	for _, o := range live {
		l := o.(interface{ self() *life }).self()
		if !l.live() || l.slot.life != l {
			w.t.Errorf("Close gave back what is not live: %v", l)
		}
		l.closed.Store(true)
		w.gone++
	}
	w.over.Store(true)
	time.Sleep(time.Minute)
	w.balance()
}

func (w *world) balance() {
	st := w.tracker.Stats()
	timedOut := uint64(0)
	for r, n := range st.TimedOut {
		timedOut += n
		if n != w.timedOut[r] {
			w.t.Errorf("Stats say %d timed out by %v, Expire was called %d times", n, r, w.timedOut[r])
		}
	}
	if st.Live != 0 || st.Tracked != w.tracked || st.Gone != w.gone || st.Tracked != st.Gone+timedOut {
		w.t.Errorf("Stats do not add up: %+v; tracked %d, gone %d, timed out %v", st, w.tracked, w.gone, w.timedOut)
	}
	if st.Pings != w.pings || st.Kept != w.kept || st.Panics != 0 {
		w.t.Errorf("Stats %+v; pinged %d, kept %d", st, w.pings, w.kept)
	}
}
