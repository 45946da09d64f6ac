package deadlines

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// oracle does what Forecast does, but looks at s at each tick, for a number of ticks.
func (s *Snapshot) oracle(of []Terms, ticks int64) (f Forecast) {
	for from := s.Now; s.Now < from+ticks; s.Now++ {
		for d := Next(s, of); d.Terms != nil && d.At <= s.Now; d = Next(s, of) {
			if f.Next.Terms == nil {
				f.Next = d
			}
			switch d.What {
			case End:
				f.End = d
				return f
			case Ping:
				s.Misses, s.Unanswered = 0, true
				s.Pinged = s.Now
			case Miss:
				s.Misses++
				s.Pinged = s.Now
			case Drain:
				s.Draining = true
				s.Born = s.Now - (d.At - d.From)
			}
		}
	}
	return f
}

// anyForecast returns any limits, and any state that a connection under them may have.
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
		Unanswered: yes(), Draining: age.Grace > 0 && yes(),
	}
	if beat.Interval > 0 && s.Unanswered {
		s.Misses = rng.IntN(beat.Misses)
	}
	return of, s
}

// TestForecastTickByTick holds forecasts of connections in any state against what happens
// if one looks at them at each tick.
func TestForecastTickByTick(t *testing.T) {
	seed, n := uint64(time.Now().UnixNano()), 20_000
	if testing.Short() {
		n /= 10
	}
	t.Logf("seed %d", seed)
	const horizon = 4000
	ends, happened := 0, map[Event]int{}
	for i := range uint64(n) {
		of, s := anyForecast(rand.New(rand.NewPCG(seed, i)))
		at, begun := s, s.Now
		got := s.Forecast(of)
		s = at
		want := s.oracle(of, horizon)
		same := func(a, b Deadline) bool {
			return a.Terms == b.Terms && (a.Terms == nil || a.What == b.What && max(a.At, begun) == max(b.At, begun) && a.From == b.From)
		}
		if got.End.Terms != nil && got.End.At >= begun+horizon {
			got.End.Terms = nil
		}
		if !same(got.Next, want.Next) || !same(got.End, want.End) {
			t.Fatalf("seed %d, number %d: by the forecast next %v in %d, end in %d; it was next %v in %d, end in %d\n%+v\n%+v", seed, i,
				got.Next.What, got.Next.At-begun, got.End.At-begun, want.Next.What, want.Next.At-begun, want.End.At-begun, of, at)
		}
		if want.End.Terms != nil {
			ends++
		}
		happened[want.Next.What]++
	}
	if ends < n/2 || happened[Ping] < n/100 || happened[Miss] < n/100 || happened[Drain] < n/100 {
		t.Errorf("only %d have ended; next was: %v", ends, happened)
	}
}
