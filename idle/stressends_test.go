package idle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/batch"
)

// stressedEnds are the ends that a stress was told of. The reporter alone uses what is not
// atomic, until it has ended.
type stressedEnds struct {
	tracked atomic.Int64 // labels that were given
	calls   int
	told    map[string]int
	reasons map[Reason]uint64
	busy    atomic.Bool

	censuses, pages, endedByPage atomic.Int64
}

// racerOf returns the racer that an owner is or has.
func racerOf(owner any) *racer {
	if r, ok := owner.(*racingReaper); ok {
		return &r.racer
	}
	return owner.(*racer)
}

func (s *stress) newLabel() string { return fmt.Sprint(s.ends.tracked.Add(1)) }

func (s *stress) label(owner any) string { return racerOf(owner).label }

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

// countOnce takes a census, turns its pages, and ends one connection now and then.
func (s *stress) countOnce(rng *rand.Rand) {
	q := Query{Sort: Sort(rng.IntN(int(numSorts)))}
	if rng.IntN(3) == 0 {
		q.Phases = []string{"phase 1", "phase 4"}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rng.IntN(8) == 0 { // it is given up
		time.AfterFunc(time.Duration(rng.IntN(int(2*time.Millisecond))), cancel)
	}
	c, err := s.tracker.Census(ctx, q)
	if err != nil {
		if err != ErrClosed && ctx.Err() == nil {
			s.t.Errorf("Census: %v", err)
		}
		return
	}
	s.ends.censuses.Add(1)
	n := 0
	for name, in := range c.Phases {
		n += in.Live
		if in.Phase.first != in.Phase || in.Phase.policy.Name != name {
			s.t.Errorf("seed %d: phase %q: %+v", s.seed, name, in)
		}
	}
	if c.Live < 200 || n != c.Live || c.Idle.Count() != uint64(n) || c.Age.Count() != uint64(n) || c.Ending(time.Minute) > n {
		s.t.Errorf("seed %d: counted %d, %d in all phases", s.seed, c.Live, n)
	}
	if q.Sort != Unlisted && q.Phases == nil && c.Len() != c.Live || q.Sort == Unlisted && c.Len() > 0 {
		s.t.Errorf("seed %d: %d of %d are listed: %+v", s.seed, c.Len(), c.Live, q)
	}
	s.turnPages(ctx, rng, c)
}

func (s *stress) turnPages(ctx context.Context, rng *rand.Rand, c *Census) {
	listed := map[*Conn]bool{}
	for from := 0; from <= c.Len(); from += 50 {
		page, err := c.Page(ctx, from, 50)
		if err != nil {
			if err != ErrClosed && ctx.Err() == nil {
				s.t.Errorf("Page: %v", err)
			}
			return
		}
		s.ends.pages.Add(1)
		for i := range page {
			of := page[i].of
			if listed[of] || racerOf(page[i].Owner).label != page[i].Label {
				s.t.Errorf("seed %d: listed twice, or as another: %+v", s.seed, page[i])
			}
			listed[of] = true
			if rng.IntN(30) == 0 && !s.stays(page[i].Owner) {
				page[i].End("by hand")
				s.ends.endedByPage.Add(1)
			}
		}
	}
}

// stays reports whether an owner is that of a stayer.
func (s *stress) stays(owner any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.stayers, func(k *stayer) bool { return k.owner == racerOf(owner) })
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
	byReason, limits := map[Reason]uint64{0: st.Closed}, uint64(0)
	for _, of := range st.ByPhase {
		for r, n := range of {
			byReason[r] += n
			if r < numLimits {
				limits += n
			}
		}
	}
	for _, r := range append(Reasons(), 0) {
		counted := map[Reason]uint64{0: st.Closed, ReasonDrain: st.Drained, ReasonShed: st.Shed, ReasonEvict: st.Evicted}[r] + st.TimedOut[r]
		if byReason[r] != counted || st.EndsLost == 0 && n.reasons[r] != counted {
			s.t.Errorf("seed %d: by %v: %d are counted, %d in all phases, and %d are told", s.seed, r, counted, byReason[r], n.reasons[r])
		}
	}
	if st.Lifetime.Count() != st.Tracked || st.Idle.Count() != st.Tracked || st.Lateness.Count() != limits || st.PassTime.Count() != st.Passes {
		s.t.Errorf("seed %d: %+v", s.seed, st)
	}
}
