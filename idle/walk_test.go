package idle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A walkLog notes whom a walk visits.
type walkLog struct {
	done <-chan struct{}
	mu   sync.Mutex
	seen []any // owners, in their order
}

// goWalking begins a walk. Each visit takes so long.
func (r *rig) goWalking(took time.Duration) *walkLog {
	w := &walkLog{}
	w.done = r.walk(func(_ *Shard, c *Conn) {
		w.mu.Lock()
		w.seen = append(w.seen, c.owner)
		w.mu.Unlock()
		time.Sleep(took)
	})
	return w
}

// goSlowly begins a walk that visits one connection a pass.
func (r *rig) goSlowly() *walkLog {
	for s := range r.each {
		if s.stride != 1 { // another walk may be under way
			s.stride = 1
		}
	}
	return r.goWalking(r.opts.Budget)
}

// ended reports whether the walk is over.
func (w *walkLog) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// visited returns how many visits there were.
func (w *walkLog) visited() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

// times returns how often o was visited.
func (w *walkLog) times(o any) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, seen := range w.seen {
		if seen == o {
			n++
		}
	}
	return n
}

// finishes waits for the end of a walk of n connections one a pass. On a loop a walk
// may use half of the time.
func (r *rig) finishes(w *walkLog, n int) {
	r.Helper()
	r.wait(time.Duration(n+3) * r.opts.Tick)
	if !w.ended() {
		r.Fatalf("the walk has not ended; it has visited %d", w.visited())
	}
}

func (r *rig) peers(n int) (all []*peer) {
	r.Helper()
	for range n {
		all = append(all, r.peer())
	}
	return all
}

// visitsOnce asserts that a walk has visited these, each once, and no other ones.
func (r *rig) visitsOnce(w *walkLog, all []*peer) {
	r.Helper()
	for i, p := range all {
		if n := w.times(p); n != 1 {
			r.Errorf("%d of %d was visited %d times", i, len(all), n)
		}
	}
	if n := w.visited(); n != len(all) {
		r.Errorf("%d visits, want %d", n, len(all))
	}
}

func TestWalkVisitsEachOnce(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Minute}, nil, func(r *rig) {
		r.finishes(r.goWalking(0), 0) // of nobody
		all := r.peers(3*looksPerLock + 17)
		for range 3 {
			w := r.goWalking(0)
			r.finishes(w, 0)
			r.visitsOnce(w, all)
		}
	})
}

// TestWalkIsInSteps has visits that take half of a tick, which is the budget: there is
// one a tick, and the rest of it is left to others.
func TestWalkIsInSteps(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Minute}, &Options{Shards: 1}, func(r *rig) {
		all, begun := r.peers(20), time.Now()
		w := r.goSlowly()
		<-w.done
		if took := time.Since(begun) / r.opts.Tick; took < 18 || took > 22 {
			r.Errorf("the walk took %d ticks, want 20", took)
		}
		r.visitsOnce(w, all)
	})
}

func TestWalksComeOneAfterTheOther(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Minute}, nil, func(r *rig) {
		all := r.peers(5)
		var walks []*walkLog
		for range 3 {
			walks = append(walks, r.goSlowly())
		}
		r.finishes(walks[2], 3*len(all)+6)
		for _, w := range walks {
			r.visitsOnce(w, all)
		}
	})
	onBoth(t, Policy{IdleTimeout: time.Minute}, &Options{Shards: 1}, func(r *rig) { // they do so in each shard
		all := r.peers(5)
		first, second := r.goSlowly(), r.goSlowly()
		for !first.ended() {
			if second.visited() > 0 {
				r.Fatal("the second walk has begun before the first has ended")
			}
			r.wait(r.opts.Tick)
		}
		r.finishes(second, len(all))
	})
}

// TestWalkAmongChanges has connections come, go, move and time out between the steps of
// a walk.
func TestWalkAmongChanges(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			p := Policy{IdleTimeout: time.Hour, ReadTimeout: 10 * time.Minute}
			onBoth(t, p, &Options{ReapDelay: 100 * time.Millisecond}, func(r *rig) { r.walkAmongChanges(rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

// A changing is a peer of which OnTimeout may be running, or was, during a walk.
type changing struct {
	peer
	answers []bool // of OnTimeout
}

func (c *changing) OnTimeout(*TimeoutError) (keep bool) {
	if len(c.answers) > 0 {
		keep, c.answers = c.answers[0], c.answers[1:]
	}
	time.Sleep(25 * time.Millisecond)
	return keep
}

// A reapedChanging lingers once it has timed out.
type reapedChanging struct{ changing }

func (c *reapedChanging) Reap() { c.Stop() }

func (r *rig) walkAmongChanges(rng *rand.Rand) {
	var phases []*Phase
	for _, idle := range []time.Duration{30 * time.Millisecond, 300 * time.Millisecond, time.Second, time.Minute, 2 * time.Hour} {
		phases = append(phases, r.phaseOf(Policy{IdleTimeout: idle, ReadTimeout: idle * 3 / 4}))
	}
	var all []*changing
	begin := func() {
		c := &changing{}
		var owner any = c
		if rng.IntN(2) == 0 {
			l := &reapedChanging{}
			c, owner = &l.changing, l
		}
		for range rng.IntN(3) {
			c.answers = append(c.answers, true)
		}
		r.track(&c.Conn, owner)
		all = append(all, c)
	}
	change := func() {
		c := all[rng.IntN(len(all))]
		switch what := rng.IntN(12); what {
		case 0:
			begin()
		case 1:
			r.do(func() { c.Stop() })
		case 2, 3, 4:
			r.do(func() {
				if c.Live() {
					c.Enter(phases[rng.IntN(len(phases))])
				}
			})
		case 5, 6:
			r.do(c.AwaitRead)
		case 7, 8:
			r.do(c.PauseRead)
		default:
			r.do(c.Touch)
		}
	}
	for range 40 {
		begin()
	}
	for range 300 {
		change()
		r.wait(r.opts.Tick / 4)
	}
	for range 5 {
		var throughout []*changing
		for _, c := range all {
			if c.Live() {
				throughout = append(throughout, c)
			}
		}
		w := r.goSlowly()
		for n := 0; !w.ended(); n++ {
			if n > 1000 {
				r.Fatalf("the walk does not end; it has visited %d", w.visited())
			}
			change()
			r.wait(time.Duration(1 + rng.Int64N(int64(r.opts.Tick))))
		}
		visited := 0
		for i, c := range all {
			n := w.times(c.owner)
			if n == 0 && c.Live() && slices.Contains(throughout, c) {
				r.Errorf("%d was live throughout and not visited", i)
			}
			if n > 1 {
				r.Errorf("%d was visited %d times", i, n)
			}
			visited += n
		}
		if visited != w.visited() || visited == 0 {
			r.Errorf("%d visits, of which %d of these", w.visited(), visited)
		}
	}
}

// TestWalkVisitsBesideOnTimeout has an OnTimeout run from before a walk until after it.
func TestWalkVisitsBesideOnTimeout(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		asked := &slowKeeper{}
		r.track(&asked.Conn, asked)
		r.wait(time.Second + r.late())
		others := r.peers(5)
		w := r.goSlowly()
		r.finishes(w, len(others)+1)
		if w.times(asked) != 1 || w.visited() != 1+len(others) {
			r.Errorf("visited %d times beside OnTimeout, of %d visits", w.times(asked), w.visited())
		}
	})
}

// A slowKeeper thinks for a while before it says yes.
type slowKeeper struct{ peer }

const slowKeeps = 800 * time.Millisecond

func (k *slowKeeper) OnTimeout(*TimeoutError) bool {
	k.at = time.Now()
	time.Sleep(slowKeeps)
	return true
}

// TestWalkPassesOverWhatLingers has connections wait to be reaped during a walk, which
// does not bring that forward.
func TestWalkPassesOverWhatLingers(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, &Options{ReapDelay: time.Second}, func(r *rig) {
		lingers := &lingering{}
		r.track(&lingers.Conn, lingers)
		r.wait(time.Second + r.late())
		ended := time.Now()
		if len(lingers.expired) != 1 {
			r.Fatal("not expired")
		}
		others := r.peers(5)
		w := r.goSlowly()
		r.finishes(w, len(others)+1)
		r.visitsOnce(w, others)
		r.wait(time.Until(ended.Add(time.Second - r.late())))
		if lingers.reaped > 0 {
			r.Error("reaped too early")
		}
		r.wait(3 * r.late())
		if lingers.reaped != 1 {
			r.Errorf("reaped %d times", lingers.reaped)
		}
	})
}

type lingering struct {
	peer
	reaped int
}

func (l *lingering) Reap() { l.reaped++; l.Stop() }

// TestWalkOfWhatComesUp has all connections come up, and some time out, while a walk
// lasts. Those that stay are visited.
func TestWalkOfWhatComesUp(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		all := r.peers(30)
		r.wait(time.Second - 10*r.opts.Tick)
		r.do(func() {
			for _, p := range all[:10] {
				p.Touch()
			}
		})
		w := r.goSlowly()
		r.finishes(w, 2*len(all))
		for i, p := range all {
			if n := w.times(p); p.Live() != (i < 10) || n > 1 || n == 0 && p.Live() {
				r.Errorf("%d is live: %v, and was visited %d times", i, p.Live(), n)
			}
		}
	})
}

// TestWalkBesideHerd has more time out than the budget allows, for longer than a walk
// may take.
func TestWalkBesideHerd(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Minute}, &Options{Shards: 1}, func(r *rig) {
		herd := r.phaseOf(Policy{IdleTimeout: time.Second})
		for range 1000 {
			p := &slowToExpire{took: r.opts.Budget / 4}
			r.track(&p.Conn, p)
			r.do(func() { p.Enter(herd) })
		}
		r.wait(time.Second + r.late())
		all := r.peers(10)
		for s := range r.each {
			s.stride = 200 // connections, of 1010
		}
		w := r.goWalking(0)
		r.wait(6 * time.Duration(len(all)) * r.opts.Tick)
		for i, p := range all {
			if w.times(p) != 1 {
				r.Errorf("%d of %d was visited %d times", i, len(all), w.times(p))
			}
		}
		if left := r.Stats().Live; left < 200 {
			r.Errorf("the herd has passed; %d are left", left)
		}
	})
}

type slowToExpire struct {
	peer
	took time.Duration
}

func (s *slowToExpire) Expire(*TimeoutError) { time.Sleep(s.took) }

// BenchmarkWalk visits a million connections.
func BenchmarkWalk(b *testing.B) {
	const n = 1_000_000
	tr, err := New(Policy{IdleTimeout: time.Minute, MaxAge: time.Hour}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer tr.Close()
	peers := make([]peer, n)
	for i := range peers {
		if err := tr.Track(&peers[i].Conn, &peers[i], hooksOf(&peers[i])); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		var seen atomic.Int64
		<-tr.walk(func(s *Shard, c *Conn) { seen.Add(1) })
		if seen.Load() != n {
			b.Fatalf("%d visited of %d", seen.Load(), n)
		}
	}
	st := tr.Stats()
	b.ReportMetric(float64(st.Longest.Microseconds()), "longest-pass-µs")
	b.ReportMetric(float64(st.PassTotal.Milliseconds())/float64(b.N), "busy-ms/op")
}
