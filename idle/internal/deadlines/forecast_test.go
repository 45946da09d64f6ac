package deadlines

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// oracle does what Ends does, but looks at s at each tick, for a number of ticks. It returns the first
// event, too.
func (s *Snapshot) oracle(of []Terms, ticks int64) (first, end Deadline) {
	s.still = true
	for from := s.Now; s.Now < from+ticks; s.Now++ {
		for d := Next(s, of); d.Terms != nil && d.At <= s.Now; d = Next(s, of) {
			if first.Terms == nil {
				first = d
			}
			switch d.What {
			case End:
				return first, d
			case Ping:
				s.Misses, s.Unanswered = 0, true
				s.Pinged = s.Now
			case Miss:
				s.Misses++
				s.Pinged = s.Now
			case Tell:
				s.Told = s.Now
			}
		}
	}
	return first, end
}

// anyForecast returns any limits, and any state that a connection under them may have, in a drain or not.
func anyForecast(rng *rand.Rand) (of []Terms, s Snapshot) {
	const now, mostMisses = 1 << 20, 100
	from := func(least, most int64) int64 { return least + rng.Int64N(most) }
	maybe := func(n int64) int64 { return n * rng.Int64N(2) }
	limit := func(t Terms) {
		if t.Limit = uint8(len(of)); t.Ticks > 0 {
			of = append(of, t)
		}
	}
	beat := Terms{Counts: OfBeats, Ticks: 1}
	age := Terms{Counts: OfLife, Ticks: maybe(from(1, 200)), Jitter: maybe(from(1, 100)), Grace: maybe(from(1, 100))}
	switch rng.IntN(4) {
	case 0:
		beat.Interval, beat.Pong, beat.Misses = from(1, 60), from(1, 60), 1+rng.IntN(4)
	case 1: // many misses, and the time for an answer is longer or shorter than that between pings
		beat.Interval, beat.Pong, beat.Misses = from(1, 10), from(1, 20), 1+rng.IntN(mostMisses)
	case 2: // passive
		beat.Ticks = from(1, 300)
	default:
		beat.Ticks = 0
	}
	if beat.Interval > 0 {
		beat.Jitter = maybe(rng.Int64N(beat.Interval + 1))
	}
	if rng.IntN(20) == 0 { // as many events as there may be
		beat = Terms{Counts: OfBeats, Ticks: 1, Interval: 2, Pong: from(1, 4), Misses: mostMisses}
		age = Terms{Counts: OfLife, Ticks: from(1, 100), Grace: 3600}
	} else {
		for _, counts := range []Basis{OfUse, OfRead, OfWrite, OfReads, OfWrites, OfPhase} {
			limit(Terms{Counts: counts, Ticks: maybe(from(1, 300))})
		}
	}
	limit(beat)
	limit(age)

	past := func() int64 { return now - rng.Int64N(150) }
	yes := func() bool { return rng.IntN(2) == 0 }
	flow := func() Flow {
		since := past()
		return Flow{Last: past(), Waits: yes(), Since: since, Overdue: yes(), paid: since + rng.Int64N(300) - 200, owed: (rng.Int64N(300) - 50) << 32}
	}
	s = Snapshot{
		Moment: clock.Moment{Now: now}, Seed: rng.Uint32(), In: flow(), Out: flow(),
		Born: past(), Began: past(), Beat: past(), Pinged: past(),
		Unanswered: yes(), Busy: yes(),
	}
	s.Told = max(s.Born, past())
	if yes() {
		s.Drain = Drain{Terms: &Terms{Limit: uint8(len(of)), Grace: maybe(from(1, 100))}, Turn: past() + rng.Int64N(300)}
		s.Drain.Again = maybe(from(now, 5))
		s.Drain.Force = maybe(now + rng.Int64N(400) - 50)
	}
	if beat.Interval > 0 && s.Unanswered {
		s.Misses = rng.IntN(beat.Misses)
	}
	return of, s
}

// TestForecastTickByTick compares forecasts of connections in any state with what happens if one
// looks at them at each tick.
func TestForecastTickByTick(t *testing.T) {
	seed, n := uint64(time.Now().UnixNano()), 20_000
	if testing.Short() {
		n /= 10
	}
	t.Logf("seed %d", seed)
	const horizon = 4000
	ends, drained, happened := 0, 0, map[Event]int{}
	for i := range uint64(n) {
		of, s := anyForecast(rand.New(rand.NewPCG(seed, i)))
		at, begun := s, s.Now
		got := s.Ends(of)
		first, want := s.oracle(of, horizon)
		if got.Terms != nil && got.At >= begun+horizon {
			got = Deadline{}
		}
		got.At, want.At = max(got.At, begun), max(want.At, begun)
		if got.Terms != want.Terms || want.Terms != nil && got != want {
			t.Fatalf("seed %d, number %d: by the forecast it ends in %d, %+v; it did in %d, %+v\n%+v\n%+v", seed, i,
				got.At-begun, got, want.At-begun, want, of, at)
		}
		if want.Terms != nil {
			ends++
			if want.Terms == at.Drain.Terms {
				drained++
			}
		}
		happened[first.What]++
	}
	if ends < n/2 || drained < n/100 || happened[Ping] < n/100 || happened[Miss] < n/100 || happened[Tell] < n/100 {
		t.Errorf("only %d have ended, %d by a drain; next was: %v", ends, drained, happened)
	}
}
