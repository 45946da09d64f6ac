package idle

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A stayer is a connection that is live until the tracker is closed, or the loop's
// shard. Every walk has to visit it once.
type stayer struct {
	conn   Conn
	owner  *racer
	leaves atomic.Bool // its shard is about to be closed
}

// lastingPolicies are those of the phases in which stayers are. Nobody passes their
// limits, but to go from one to another moves a connection in the wheel. Operations leave
// those alone that are busy.
var lastingPolicies = []Policy{
	{NoInterrupt: true},
	{NoInterrupt: true, IdleTimeout: 10 * time.Hour},
	{NoInterrupt: true, IdleTimeout: time.Hour, ReadTimeout: time.Minute},
	{NoInterrupt: true, IdleTimeout: time.Hour, ReadTotal: time.Hour, Heartbeat: Heartbeat{Interval: 2 * time.Minute, Passive: true}},
	{NoInterrupt: true, PhaseTimeout: 3 * time.Minute, MinReadRate: Rate{100, time.Minute}, MinWriteRate: Rate{100, time.Minute}},
}

// readyToWalk has the tracker's own shards make small steps, and prepares the stayers'
// phases.
func (s *stress) readyToWalk() {
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
		s.made(&k.conn)
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

// steer walks, replaces policies, drains, sheds, ends some by hand, and disturbs those that
// stay, until the tracker is closed.
func (s *stress) steer(wg *sync.WaitGroup) {
	stay := s.stay(300, s.tracker.Track)
	every := func(seed uint64, rest time.Duration, do func(*rand.Rand)) {
		rng := rand.New(rand.NewPCG(s.seed, seed))
		wg.Go(func() {
			for !s.isClosed() && !s.t.Failed() {
				do(rng)
				time.Sleep(rest)
			}
		})
	}
	every(2000, 50*time.Microsecond, func(rng *rand.Rand) { s.disturb(rng, stay[rng.IntN(len(stay))]) })
	every(2001, 2*time.Millisecond, s.replace)
	every(2004, time.Millisecond, s.drainOnce)
	every(2005, time.Millisecond, s.drainOnce)
	every(2006, time.Millisecond, s.shedOnce)
	every(2007, time.Millisecond, s.shedOnce)
	every(2008, 100*time.Microsecond, s.endOne)
	every(2009, 100*time.Microsecond, s.lastUntilDrained)
	every(2010, time.Millisecond, s.countOnce)
	every(2011, time.Millisecond, s.countOnce)
	every(2012, 500*time.Microsecond, s.recall)
	for i := range uint64(2) {
		every(2002+i, time.Millisecond, s.walkOnce)
	}
}

// isSteered reports whether all has happened once.
func (s *stress) isSteered() bool {
	st := s.tracker.Stats()
	return s.walks.Load() > 0 && st.Drained > 0 && st.Shed > 0 && s.ends.endedByPage.Load() > 0
}

func (s *stress) isClosed() bool {
	s.tracker.mu.Lock()
	defer s.tracker.mu.Unlock()
	return s.tracker.closed
}

// replace replaces the policy of any phase by another one.
func (s *stress) replace(rng *rand.Rand) {
	ph, p := s.lasting[rng.IntN(len(s.lasting))], lastingPolicies[rng.IntN(len(lastingPolicies))]
	if rng.IntN(2) == 0 {
		ph, p = s.phases[rng.IntN(len(s.phases))], racePolicy
		p.IdleTimeout *= time.Duration(1 + rng.IntN(3))
		p.MaxAge *= time.Duration(1 + rng.IntN(3))
		if rng.IntN(2) == 0 {
			p.Heartbeat, p.MinReadRate, p.ReadTotal = Heartbeat{}, Rate{}, 3*time.Millisecond
		}
	}
	if err := ph.SetPolicy(p); err != nil && err != ErrClosed {
		s.t.Errorf("Replace by %+v: %v", p, err)
	}
	s.replaced.Add(1)
}

// walkOnce walks, and holds the visits against those that stay.
func (s *stress) walkOnce(rng *rand.Rand) {
	var mu sync.Mutex
	seen := map[any]int{}
	s.mu.Lock()
	stay := s.stayers[:len(s.stayers):len(s.stayers)]
	s.mu.Unlock()
	<-s.tracker.walk(func(_ *Shard, c *Conn) {
		mu.Lock()
		defer mu.Unlock()
		seen[c.owner]++
	})
	if s.isClosed() {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	s.walks.Add(1)
	missed := 0
	for _, k := range stay {
		if seen[k.owner] == 0 && k.conn.Live() && !k.leaves.Load() {
			missed++
		}
	}
	for o, n := range seen {
		if n > 1 {
			s.t.Errorf("seed %d: %T was visited %d times in a walk", s.seed, o, n)
		}
	}
	if missed > 0 || len(seen) < 200 {
		s.t.Errorf("seed %d: %d of %d that stay were not visited; %d visits", s.seed, missed, len(stay), len(seen))
	}
}
