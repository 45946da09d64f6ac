package deadlines

import (
	"testing"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// TestNext has a connection in tick 1000, which was tracked in tick 900, and changes one thing
// after the other. A deadline counts from the tick after the last activity.
func TestNext(t *testing.T) {
	pings := Terms{Counts: OfBeats, Ticks: 1, Interval: 50, Pong: 20, Misses: 3}
	quiet := func(change func(s *Snapshot)) Snapshot {
		flow := Flow{Used: 950, Last: 950, Since: 900, paid: 900}
		s := Snapshot{Moment: clock.Moment{Now: 1000}, In: flow, Out: flow, Born: 900, Told: 900, Began: 920, Beat: 930, Pinged: 900}
		s.In.Waits = true
		change(&s)
		return s
	}
	unpaid := func(s *Snapshot) { // the wait to read is over, and took 30 ticks
		s.In.Waits = false
		s.In.Since = 930
		s.In.SetPaid(1000, clock.StartOf(900))
	}
	for name, test := range map[string]struct {
		change   func(s *Snapshot)
		of       Terms
		what     Event
		at, from int64
	}{
		"use, in the latter direction":      {func(s *Snapshot) { s.Out.Used, s.Out.Last = 970, 970 }, Terms{Counts: OfUse, Ticks: 60}, End, 1031, 971},
		"use, but for a beat":               {func(s *Snapshot) { s.In.Last = 970 }, Terms{Counts: OfUse, Ticks: 60}, End, 1011, 951},
		"a read waits":                      {func(s *Snapshot) {}, Terms{Counts: OfRead, Ticks: 60}, End, 1011, 951},
		"a read waits since the last":       {func(s *Snapshot) { s.In.Since = 960 }, Terms{Counts: OfRead, Ticks: 60}, End, 1021, 961},
		"no write waits":                    {func(s *Snapshot) {}, Terms{Counts: OfWrite, Ticks: 60}, Again, 0, 0},
		"a write waits":                     {func(s *Snapshot) { s.Out.Waits = true }, Terms{Counts: OfWrite, Ticks: 60}, End, 1011, 951},
		"all reads":                         {func(s *Snapshot) {}, Terms{Counts: OfReads, Ticks: 110}, End, 1011, 901},
		"all reads, with some paid for":     {func(s *Snapshot) { s.In.SetPaid(1000, clock.StartOf(925)) }, Terms{Counts: OfReads, Ticks: 110}, End, 1036, 926},
		"all reads, in a pause":             {unpaid, Terms{Counts: OfReads, Ticks: 20}, Again, 0, 0},
		"all reads, overdue in a pause":     {func(s *Snapshot) { unpaid(s); s.In.Overdue = true }, Terms{Counts: OfReads, Ticks: 20}, End, 921, 901},
		"all reads, not yet in a pause":     {func(s *Snapshot) { unpaid(s); s.In.Overdue = true }, Terms{Counts: OfReads, Ticks: 40}, Again, 0, 0},
		"all writes":                        {func(s *Snapshot) { s.Out.Waits, s.Out.Since = true, 910; s.Out.SetPaid(1000, clock.StartOf(910)) }, Terms{Counts: OfWrites, Ticks: 110}, End, 1021, 911},
		"all reads, overdue by half a tick": {func(s *Snapshot) { unpaid(s); s.In.Overdue = true; s.In.SetPaid(1000, clock.StartOf(908).Add(1<<31)) }, Terms{Counts: OfReads, Ticks: 20}, End, 930, 910},
		"the phase":                         {func(s *Snapshot) {}, Terms{Counts: OfPhase, Ticks: 100}, End, 1021, 921},
		"beats":                             {func(s *Snapshot) {}, Terms{Counts: OfBeats, Ticks: 100}, End, 1031, 931},
		"beats, if the limit was extended":  {func(s *Snapshot) { s.Pinged = 940 }, Terms{Counts: OfBeats, Ticks: 100}, End, 1041, 941},
		"a ping":                            {func(s *Snapshot) {}, pings, Ping, 1001, 951},
		"a miss":                            {func(s *Snapshot) { s.Pinged, s.Unanswered, s.Misses = 990, true, 1 }, pings, Miss, 1011, 991},
		"the last miss":                     {func(s *Snapshot) { s.Pinged, s.Unanswered, s.Misses = 990, true, 2 }, pings, End, 1011, 951},
		"an answer":                         {func(s *Snapshot) { s.Pinged, s.Unanswered, s.In.Last = 990, true, 990 }, pings, Ping, 1041, 991},
		"a ping with much time to answer":   {func(s *Snapshot) { s.Pinged, s.Unanswered = 990, true }, Terms{Counts: OfBeats, Ticks: 1, Interval: 50, Pong: 200, Misses: 3}, Again, 1051, 1001},
		"the age":                           {func(s *Snapshot) {}, Terms{Counts: OfLife, Ticks: 200}, End, 1101, 901},
		"the age, with grace":               {func(s *Snapshot) {}, Terms{Counts: OfLife, Ticks: 200, Grace: 10}, Tell, 1101, 901},
	} {
		s := quiet(test.change)
		if test.at == 0 { // no limit counts
			test.at = s.Now + clock.MaxTicks
		}
		if d := Next(&s, []Terms{test.of}); d.What != test.what || d.At != test.at || d.From != test.from {
			t.Errorf("%s: %v at %d, from %d; want %v at %d, from %d", name, d.What, d.At, d.From, test.what, test.at, test.from)
		}
	}
}

// TestTies has several limits pass in the same tick, or before now. One that ends the connection
// comes first, and then the first in the list.
func TestTies(t *testing.T) {
	s := Snapshot{Moment: clock.Moment{Now: 1000}, Began: 900, Born: 890, In: Flow{Used: 890, Last: 890}}
	drain, phase, age := Terms{Limit: 1, Counts: OfLife, Ticks: 40, Grace: 100}, Terms{Limit: 2, Counts: OfPhase, Ticks: 80}, Terms{Limit: 3, Counts: OfUse, Ticks: 90}
	for _, test := range []struct {
		of   []Terms
		want uint8
	}{
		{[]Terms{drain, phase}, 2},
		{[]Terms{phase, drain}, 2},
		{[]Terms{phase, age}, 2}, // in the same tick
		{[]Terms{age, phase}, 3},
	} {
		if d := Next(&s, test.of); d.Terms == nil || d.Terms.Limit != test.want {
			t.Errorf("%+v: %+v", test.of, d)
		}
	}
}

// TestJitter spreads pings and ages of many connections over the time that is allowed for.
func TestJitter(t *testing.T) {
	pings, age := Terms{Counts: OfBeats, Ticks: 1, Interval: 50, Pong: 20, Misses: 3, Jitter: 10}, Terms{Counts: OfLife, Ticks: 200, Jitter: 10}
	of, offset := []Terms{pings, age}, [2]int64{1001, 1101}
	for i := range of {
		seen := map[int64]bool{}
		for seed := range uint32(1000) {
			s := Snapshot{Moment: clock.Moment{Now: 1000}, Seed: seed, In: Flow{Last: 950}, Born: 900}
			seen[Next(&s, of[i:i+1]).At-offset[i]] = true
		}
		for n := range int64(10) {
			if i == 0 {
				n = -n // pings come earlier, and the age later
			}
			if !seen[n] {
				t.Errorf("limit %d: none has a jitter of %d", i, n)
			}
		}
		if len(seen) != 10 {
			t.Errorf("limit %d: %v", i, seen)
		}
	}
}

// TestJitterSpreads has connections at regular distances, as an allocator puts them.
func TestJitterSpreads(t *testing.T) {
	const conns, parts = 200, 10
	for distance := uint32(1); distance <= 4096; distance++ {
		var each [parts]int
		for i := range uint32(conns) {
			each[jitter(i*distance, parts)]++
		}
		for part, n := range each {
			if n == 0 {
				t.Fatalf("at a distance of %d, none of %d is in part %d: %v", distance, conns, part, each)
			}
		}
	}
}
