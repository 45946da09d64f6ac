package main

import (
	"context"
	"errors"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/idle"
)

// What evict is held to, in percent: from how many of the most idle those are that make
// room, and how many there may be too many, meanwhile. Each is the most idle of 100 at
// random. So in the mean 1 % are more idle, and among a million evictions that more than 20 %
// are has a probability of 1 in 5,000.
const (
	mostRank = 20
	mostOver = 2
)

// newcomers returns how many connections come later: 1 % a second, in the second and
// third quarter of the time.
func (c *config) newcomers() int {
	if c.scenario == nil || c.scenario.reason != idle.ReasonEvict {
		return 0
	}
	return int(float64(c.conns) / 100 * c.duration.Seconds() / 2)
}

// batch is how many newcomers come together. Few of them find the caches as the one
// before has left them, if they are fewer than a hundred.
func (c *config) batch() int { return max(1, min(c.conns/1000, 100)) }

// evict fills a tracker that has no room with newcomers.
func evict(ctx context.Context, s *steering) error {
	s.grace = s.cfg.Idle / 2
	s.stop = noTime
	s.oracle.limits.Idle = s.grace // an activity after it is belated
	before := s.tracker.Stats()
	s.room = int(before.Live)
	if err := s.tracker.SetCapacity(idle.Capacity{MaxConns: s.room, MinIdle: s.grace}); err != nil {
		return err
	}
	cost, most := spread.New(), uint64(0)
	hooks := s.hooks()
	comers := s.peers[s.cfg.conns:]
	for first := 0; first < len(comers); first += s.cfg.batch() {
		if !s.await(ctx, 0.25+0.5*float64(first)/float64(len(comers))) {
			break
		}
		for i := range comers[first:min(first+s.cfg.batch(), len(comers))] {
			if err := s.admit(&comers[first+i], hooks, cost); err != nil {
				return err
			}
		}
		most = max(most, s.tracker.Stats().Live)
	}
	program.Sleep(ctx, 10*s.cfg.Tick) // until orders are carried out
	after := s.tracker.Stats()
	s.rep.AdmissionNS, s.rep.AdmissionP99NS = float64(cost.At(50)), float64(cost.At(99))
	if n := after.Evicted; n > 0 {
		s.rep.EvictionUS = table.Round(float64(after.PassTotal-before.PassTotal)/float64(n)/float64(time.Microsecond), 2)
	}
	over := 100 * float64(int(most)-s.room-s.cfg.batch()) / float64(s.room)
	s.limit("connections beyond the capacity, in percent,", table.Round(over, 2), mostOver)
	return nil
}

// admit tracks a newcomer, which is silent from then on.
func (s *steering) admit(p *peer, hooks *idle.Hooks, cost *spread.Spread) error {
	p.kind, p.quit = silent, 0
	before := s.now()
	p.begin(before, open)
	err := s.tracker.Track(s.conn(p), p, hooks)
	cost.Add(time.Duration(s.now() - before))
	if errors.Is(err, idle.ErrFull) {
		p.state.Store(unborn)
		return nil
	}
	return err
}

// beyondGrace is the window of one that may be evicted.
func beyondGrace(s *steering, e *end, _ *peer) (from, due int64) {
	if e.state == working {
		return noTime, noTime
	}
	return max(s.begun, e.last&^belated+int64(s.grace)), noTime
}

// checkEvict checks that nobody was refused, and who made room. That nobody is refused
// is right as there always are connections that may be evicted: a quarter are silent
// from the beginning on, and newcomers take the place of a fifth.
func checkEvict(s *steering) {
	st := s.tracker.Stats()
	s.limit("refused", float64(st.Refused), 0)
	if st.Evicted == 0 {
		s.fail("nobody was evicted")
	}
	rank := worstRank(s.turns(), s.cfg.Tick)
	s.rep.OrderErrorPct = table.Round(100*float64(rank)/float64(max(s.room, 1)), 3)
	s.limit("order_error_pct", s.rep.OrderErrorPct, mostRank)
}

// worstRank returns how many were more idle, by more than a tick, than one that had its
// turn. An activity after that would hide how idle its connection was, but then it was
// less so than anyone who is beyond the grace.
func worstRank(turns []turn, tick time.Duration) (worst int) {
	bucket := func(t turn) int { return int(t.last / int64(tick)) }
	last := 0
	for _, t := range turns {
		last = max(last, bucket(t))
	}
	live := newSums(last + 1)
	for _, t := range turns {
		live.add(bucket(t), 1)
	}
	for _, t := range turns {
		if t.counts {
			worst = max(worst, live.before(bucket(t)))
		}
		live.add(bucket(t), -1)
	}
	return worst
}

// sums are numbers of which the first few can be added up quickly: a Fenwick tree.
type sums []int

func newSums(n int) sums { return make(sums, n+1) }

func (s sums) add(i, n int) {
	for i++; i < len(s); i += i & -i {
		s[i] += n
	}
}

// before returns the sum of the first i numbers.
func (s sums) before(i int) (sum int) {
	for ; i > 0; i -= i & -i {
		sum += s[i]
	}
	return sum
}
