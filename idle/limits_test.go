package idle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// odd is no multiple of a tick, nor is any sum of it that the tests use.
const odd = 3*time.Millisecond + 456789

func TestElapsedIsTrueToTheTick(t *testing.T) {
	onBoth(t, Policy{MaxAge: time.Second, MaxAgeGrace: 2 * time.Second}, nil, func(r *rig) {
		p := r.peer()
		r.dies(p, p.born, 3*time.Second, ReasonMaxAge)
		if e := p.expired[0].Elapsed; e < 3*time.Second-r.opts.Tick || e > 3*time.Second+r.late() {
			r.Errorf("it had lived for 3 s, Elapsed is %v", e)
		}
	})
}

// A restarted write has the whole grace and no more: bytes that were paid for before
// it buy no time.
func TestRestartedWriteHasItsGrace(t *testing.T) {
	policy := Policy{MinWriteRate: Rate{BytesPerSecond: 1000, Grace: time.Second}}
	for name, before := range map[string]func(r *rig, p *peer){
		"in advance": func(r *rig, p *peer) { r.do(func() { p.Sent(4 << 20) }); r.lives(p, 3*time.Second) },
		"in debt":    func(r *rig, p *peer) { r.lives(p, 900*time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, policy, nil, func(r *rig) {
				p := r.peer()
				r.do(p.AwaitWrite)
				before(r, p)
				r.do(p.RestartWrite)
				r.dies(p, time.Now(), time.Second, ReasonMinWriteRate)
			})
		})
	}
}

// TestCreditLastsAMinute has many bytes move at once, and then none. They pay for a minute at
// most, whether they were reported one by one or together, in a wait or in a pause.
func TestCreditLastsAMinute(t *testing.T) {
	rate := Rate{BytesPerSecond: 1000, Grace: time.Second}
	for name, pay := range map[string]func(r *rig, p *peer){
		"at once": func(r *rig, p *peer) { r.do(func() { p.Received(4 << 20) }) },
		"in pieces": func(r *rig, p *peer) {
			r.do(func() {
				for range 4 << 10 {
					p.Received(1 << 10)
				}
			})
		},
		"in a pause": func(r *rig, p *peer) {
			r.do(p.PauseRead)
			r.wait(10 * time.Minute)
			r.do(func() { p.Received(4 << 20); p.AwaitRead() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, Policy{MinReadRate: rate}, nil, func(r *rig) {
				p := r.peer()
				pay(r, p)
				since := time.Now()
				r.lives(p, time.Minute)
				r.wait(time.Until(since.Add(time.Minute + time.Second + r.measuring(p, ReasonMinReadRate) + 3*r.opts.Tick + r.late())))
				if len(p.expired) == 0 {
					t.Error("what was paid in advance lasts longer than a minute")
				}
			})
		})
	}
}

// These tests compute deadlines of snapshots. A tick is a second, and all that a snapshot tells of happened in tick 50. So
// a limit of 10 s passes at the beginning of tick 61, and a rate, which counts exactly, in tick 60.

func limitsUnder(t *testing.T, p Policy) *limits {
	t.Helper()
	check(t, p.validate(time.Second))
	return limitsOf(p, clock.New(time.Second, func() {}), nil)
}

func snapshotAt(now int64) *snapshot {
	const at = 50 * int64(time.Second)
	return &snapshot{
		Moment: clock.Moment{Now: now}, in: flowState{at | waiting, at}, out: flowState{at, at},
		lastIn: 50, lastOut: 50, used: 50, unread: 50, beat: 50, pinged: 50, began: 50, born: 50, told: 50,
		exact: true,
	}
}

// TestNext has a row for what happens first under each limit, and since when that counts. What unread input, waits and other limits make
// of it is decided by TestNextAgainstTheDocumentation.
func TestNext(t *testing.T) {
	const s = time.Second
	type of = func(l *limits, s *snapshot)
	tick := func(n int64) int64 { return n * int64(s) }
	var (
		idle    = Policy{IdleTimeout: 10 * s}
		used    = Policy{IdleTimeout: 10 * s, ExplicitUse: true}
		read    = Policy{ReadTimeout: 10 * s}
		write   = Policy{WriteTimeout: 10 * s}
		phase   = Policy{PhaseTimeout: 10 * s}
		slow    = Policy{MinReadRate: Rate{1, 10 * s}}
		stuck   = Policy{MinWriteRate: Rate{1, 10 * s}}
		age     = Policy{MaxAge: 20 * s}
		grace   = Policy{MaxAge: 20 * s, MaxAgeGrace: 5 * s}
		passive = Policy{Heartbeat: Heartbeat{Interval: 10 * s, Misses: 2, Timeout: 5 * s, Passive: true}}
		active  = Policy{Heartbeat: Heartbeat{Interval: 10 * s, Misses: 2, Timeout: 3 * s}}
		patient = Policy{Heartbeat: Heartbeat{Interval: 10 * s, Timeout: 20 * s}}
	)
	writes := func(_ *limits, s *snapshot) { s.out.at |= waiting }
	pinged := func(l *limits, s *snapshot) { s.pinged, s.unanswered, s.Now = 61, true, 62 }
	missed := func(l *limits, s *snapshot) { pinged(l, s); s.misses = 1 }
	drained := func(l *limits, s *snapshot) { s.drain = turn{at: 80, grace: 5} }
	told := func(l *limits, s *snapshot) { drained(l, s); s.told, s.drain.again = 80, 86 }
	const nothing = 55 + clock.MaxTicks
	for _, c := range []struct {
		name   string
		policy Policy
		change of
		want   deadline
	}{
		{"no limit", Policy{}, nil, deadline{nothing, 0, evAgain, 0}},
		{"idle", idle, nil, deadline{61, 51, evEnd, ReasonIdle}},
		{"idle since input", idle, func(_ *limits, s *snapshot) { s.lastIn = 52 }, deadline{63, 53, evEnd, ReasonIdle}},
		{"idle with unread input", idle, func(_ *limits, s *snapshot) { s.unread = 60 }, deadline{71, 61, evEnd, ReasonIdle}},
		{"use counts from SetPolicy", used, func(l *limits, _ *snapshot) { l.used = 54 }, deadline{65, 55, evEnd, ReasonIdle}},

		{"read", read, nil, deadline{61, 51, evEnd, ReasonRead}},
		{"read since input", read, func(_ *limits, s *snapshot) { s.lastIn, s.lastOut = 52, 54 }, deadline{63, 53, evEnd, ReasonRead}},
		{"write", write, writes, deadline{61, 51, evEnd, ReasonWrite}},
		{"write since output", write, func(l *limits, s *snapshot) { writes(l, s); s.lastOut = 52; s.lastIn = 54; s.unread = 60 }, deadline{63, 53, evEnd, ReasonWrite}},

		{"slow, by ticks", slow, func(_ *limits, s *snapshot) { s.exact = false }, deadline{52, 50, evMeasure, ReasonMinReadRate}},
		{"slow", slow, nil, deadline{60, 50, evEnd, ReasonMinReadRate}},
		{"slow, to the ns", slow, func(_ *limits, s *snapshot) { s.in.paid++ }, deadline{61, 50, evEnd, ReasonMinReadRate}},
		{"slow since SetPolicy", slow, func(l *limits, _ *snapshot) { l.in.from = tick(54) }, deadline{64, 54, evEnd, ReasonMinReadRate}},
		{"stuck", stuck, writes, deadline{60, 50, evEnd, ReasonMinWriteRate}},

		{"phase", phase, func(_ *limits, s *snapshot) { s.lastIn, s.lastOut, s.used = 54, 54, 54 }, deadline{61, 51, evEnd, ReasonPhase}},
		{"phase with unread input", phase, func(_ *limits, s *snapshot) { s.unread = 60 }, deadline{66, 51, evEnd, ReasonPhase}},

		{"age", age, func(_ *limits, s *snapshot) { s.began, s.unread = 54, 70 }, deadline{71, 51, evEnd, ReasonMaxAge}},
		{"age with a grace", grace, nil, deadline{71, 51, evTell, ReasonMaxAge}},
		{"grace", grace, func(_ *limits, s *snapshot) { s.told = 72 }, deadline{78, 51, evEnd, ReasonMaxAge}},

		{"beat", passive, func(_ *limits, s *snapshot) { s.lastIn, s.pinged = 54, 54 }, deadline{76, 51, evEnd, ReasonHeartbeat}},
		{"beat since SetPolicy", passive, func(l *limits, _ *snapshot) { l.heartbeat = 52 }, deadline{78, 53, evEnd, ReasonHeartbeat}},
		{"ping", active, func(_ *limits, s *snapshot) { s.lastOut, s.used, s.beat = 54, 54, 54 }, deadline{61, 51, evPing, ReasonHeartbeat}},
		{"ping since SetPolicy", active, func(l *limits, _ *snapshot) { l.heartbeat = 52 }, deadline{63, 53, evPing, ReasonHeartbeat}},
		{"miss", active, pinged, deadline{65, 62, evMiss, ReasonHeartbeat}},
		{"last miss", active, func(l *limits, s *snapshot) { missed(l, s); s.pinged, s.Now = 65, 66 }, deadline{69, 51, evEnd, ReasonHeartbeat}},
		{"pinged under another policy", active, func(l *limits, s *snapshot) { missed(l, s); l.heartbeat = 62 }, deadline{73, 63, evPing, ReasonHeartbeat}},
		{"an answer may come long before the miss", patient, pinged, deadline{73, 63, evAgain, ReasonHeartbeat}},
		{"but not in a forecast", patient, func(l *limits, s *snapshot) { pinged(l, s); s.still = true }, deadline{82, 51, evEnd, ReasonHeartbeat}},

		{"drain", Policy{}, drained, deadline{80, 80, evTell, ReasonDrain}},
		{"drain after OnDrain", Policy{}, told, deadline{86, 80, evEnd, ReasonDrain}},
		{"drain after OnDrain of MaxAge", Policy{}, func(l *limits, s *snapshot) { told(l, s); s.told = 84 }, deadline{86, 80, evEnd, ReasonDrain}},
		{"drain in use", Policy{}, func(l *limits, s *snapshot) { told(l, s); s.drain.again = 90 }, deadline{90, 80, evEnd, ReasonDrain}},
		{"drain by force", Policy{}, func(l *limits, s *snapshot) { told(l, s); s.drain.again, s.drain.force = 90, 88 }, deadline{88, 80, evEnd, ReasonDrain}},
		{"drain by force before the turn", Policy{}, func(l *limits, s *snapshot) { drained(l, s); s.drain.force = 70 }, deadline{70, 80, evEnd, ReasonDrain}},
		{"MaxAge before the drain", age, drained, deadline{71, 51, evEnd, ReasonMaxAge}},

		{"the end before OnDrain", Policy{PhaseTimeout: 20 * s, MaxAge: 20 * s, MaxAgeGrace: s}, nil, deadline{71, 51, evEnd, ReasonPhase}},
	} {
		l, snap := limitsUnder(t, c.policy), snapshotAt(55)
		if c.change != nil {
			c.change(l, snap)
		}
		if got := l.next(snap); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestNextJitter: MaxAge is later by 0 to 9 ticks and a ping earlier, by the same for the same connection, and by each
// number of ticks for about as many.
func TestNextJitter(t *testing.T) {
	const s, seeds = time.Second, 10_000
	age := limitsUnder(t, Policy{MaxAge: 20 * s, MaxAgeJitter: 10 * s})
	ping := limitsUnder(t, Policy{Heartbeat: Heartbeat{Interval: 20 * s, Timeout: s, Jitter: 10 * s}})
	ages, pings := map[int64]int{}, map[int64]int{}
	snap := snapshotAt(55)
	for seed := range uint32(seeds) {
		snap.seed = seed * 9 // as connections lie in memory
		ages[age.next(snap).at-71]++
		pings[71-ping.next(snap).at]++
	}
	for _, counts := range []map[int64]int{ages, pings} {
		for off := range int64(10) {
			if n := counts[off]; n < seeds/10*9/10 || n > seeds/10*11/10 || len(counts) != 10 {
				t.Errorf("%d of %d are off by %d: %v", n, seeds, off, counts)
			}
		}
	}
}

// An expectation is what may happen to a connection, and whether it's time for that at the beginning of a tick.
type expectation struct {
	by   Reason
	what event
	is   func(tick int64) bool
}

// expectations are what the documentation of Policy says, in plain terms.
func expectations(p *Policy, s *snapshot) (all []expectation) {
	secs := func(d time.Duration) int64 { return int64(d / time.Second) }
	add := func(by Reason, what event, is func(tick int64) bool) { all = append(all, expectation{by, what, is}) }
	// An activity was at any time of its tick. So something was so long ago if that's so for the end of that tick.
	allAgo := func(tick int64, d time.Duration, activities ...int64) bool {
		for _, a := range activities {
			if tick-(a+1) < secs(d) {
				return false
			}
		}
		return true
	}
	// Unread input puts a limit off, if it was found when that had passed. That was in the tick after s.unread.
	putOff := func(passed func(tick int64) bool) func(tick int64) bool {
		return func(tick int64) bool {
			if passed(s.unread + 1) {
				return passed(tick - 5)
			}
			return passed(tick)
		}
	}
	reads, writes := s.in.at&1 != 0, s.out.at&1 != 0
	if p.IdleTimeout > 0 {
		if p.ExplicitUse {
			add(ReasonIdle, evEnd, putOff(func(tick int64) bool { return allAgo(tick, p.IdleTimeout, s.used) }))
		} else {
			add(ReasonIdle, evEnd, func(tick int64) bool {
				return allAgo(tick, p.IdleTimeout, s.used, s.lastIn, s.lastOut, s.unread)
			})
		}
	}
	if p.ReadTimeout > 0 && reads {
		add(ReasonRead, evEnd, func(tick int64) bool {
			return allAgo(tick, p.ReadTimeout, s.in.at/int64(time.Second), s.lastIn, s.unread)
		})
	}
	if p.WriteTimeout > 0 && writes {
		add(ReasonWrite, evEnd, func(tick int64) bool { return allAgo(tick, p.WriteTimeout, s.out.at/int64(time.Second), s.lastOut) })
	}
	if p.MaxAge > 0 {
		aged := func(tick int64) bool { return allAgo(tick, p.MaxAge, s.born) }
		switch {
		case p.MaxAgeGrace == 0:
			add(ReasonMaxAge, evEnd, aged)
		case aged(s.told):
			add(ReasonMaxAge, evEnd, func(tick int64) bool { return allAgo(tick, p.MaxAgeGrace, s.told) })
		default:
			add(ReasonMaxAge, evTell, aged)
		}
	}
	if h := p.Heartbeat; h.Passive {
		add(ReasonHeartbeat, evEnd, putOff(func(tick int64) bool {
			return allAgo(tick, time.Duration(max(h.Misses, 1))*h.Interval+h.Timeout, s.beat)
		}))
	} else if h.Interval > 0 {
		heard := max(s.lastIn, s.unread)
		switch awaits := s.unanswered && heard < s.pinged; {
		case !awaits:
			add(ReasonHeartbeat, evPing, func(tick int64) bool { return allAgo(tick, h.Interval, heard, s.pinged) })
		case s.pinged+secs(h.Timeout) > s.Now+secs(h.Interval),
			s.misses+1 >= h.Misses && heard+secs(h.Interval+time.Duration(max(h.Misses, 1))*h.Timeout) > s.Now+secs(h.Interval):
			add(ReasonHeartbeat, evAgain, func(tick int64) bool { return allAgo(tick, h.Interval, s.Now) })
		case s.misses+1 < h.Misses:
			add(ReasonHeartbeat, evMiss, func(tick int64) bool { return allAgo(tick, h.Timeout, s.pinged) })
		default:
			add(ReasonHeartbeat, evEnd, func(tick int64) bool {
				return allAgo(tick, h.Timeout, s.pinged) && allAgo(tick, h.Interval+time.Duration(max(h.Misses, 1))*h.Timeout, heard)
			})
		}
	}
	slow := func(f flowState, grace time.Duration) func(tick int64) bool {
		return func(tick int64) bool { return time.Duration(tick)*time.Second-time.Duration(f.paid) >= grace }
	}
	switch r := p.MinReadRate; {
	case r.Grace == 0 || !reads:
	case s.exact:
		add(ReasonMinReadRate, evEnd, putOff(slow(s.in, r.Grace)))
	default:
		add(ReasonMinReadRate, evMeasure, slow(s.in, r.Grace/8))
	}
	switch r := p.MinWriteRate; {
	case r.Grace == 0 || !writes:
	case s.exact:
		add(ReasonMinWriteRate, evEnd, slow(s.out, r.Grace))
	default:
		add(ReasonMinWriteRate, evMeasure, slow(s.out, r.Grace/8))
	}
	if p.PhaseTimeout > 0 {
		add(ReasonPhase, evEnd, putOff(func(tick int64) bool { return allAgo(tick, p.PhaseTimeout, s.began) }))
	}
	return all
}

// TestNextAgainstTheDocumentation compares next with what comes first of these expectations. What ends the connection comes
// first among those that are due, or come in the same tick, and then what comes sooner.
func TestNextAgainstTheDocumentation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	secs := func() time.Duration { return time.Duration(1+rng.IntN(12)) * time.Second }
	some := func(d time.Duration) time.Duration {
		if rng.IntN(2) == 0 {
			return 0
		}
		return d
	}
	seen := map[string]int{}
	for range 60_000 {
		p := Policy{IdleTimeout: some(secs()), ReadTimeout: some(secs()), WriteTimeout: some(secs()), PhaseTimeout: some(secs()), MaxAge: some(secs())}
		if p.ExplicitUse = rng.IntN(2) == 0; p.MaxAge > 0 {
			p.MaxAgeGrace = some(secs())
		}
		if rng.IntN(2) == 0 {
			p.Heartbeat = Heartbeat{Interval: secs(), Timeout: secs(), Misses: rng.IntN(4), Passive: rng.IntN(2) == 0}
			p.ExplicitUse = p.ExplicitUse || p.IdleTimeout > p.Heartbeat.Interval
		}
		for _, r := range []*Rate{&p.MinReadRate, &p.MinWriteRate} {
			if rng.IntN(3) == 0 {
				*r = Rate{1, secs() + time.Duration(rng.IntN(1e9))}
			}
		}
		const oldest = 50
		s := &snapshot{Moment: clock.Moment{Now: 70}, unanswered: rng.IntN(2) == 0, exact: rng.IntN(2) == 0, misses: rng.IntN(3)}
		for _, w := range []*int64{&s.lastIn, &s.lastOut, &s.used, &s.unread, &s.beat, &s.pinged, &s.began, &s.born, &s.told} {
			*w = oldest + rng.Int64N(s.Now-oldest)
		}
		s.born = min(s.born, s.unread-1) // the two are the same as long as no input was found
		for _, f := range []*flowState{&s.in, &s.out} {
			at := func() int64 { return rng.Int64N((s.Now-oldest)*1e9) + oldest*1e9 }
			*f = flowState{at()&^waiting | rng.Int64N(2), at()}
		}
		want, due := deadline{at: s.Now + clock.MaxTicks, what: evAgain}, false
		for _, e := range expectations(&p, s) {
			at := int64(0)
			for !e.is(at) {
				at++
			}
			first, ends, isDue := at < want.at, e.what == evEnd, at <= s.Now
			if (at == want.at || isDue && due) && ends != (want.what == evEnd) {
				first = ends
			}
			if first {
				want, due = deadline{at: at, what: e.what, by: e.by}, isDue
			}
		}
		got := limitsUnder(t, p).next(s)
		if got.at != want.at || got.what != want.what || got.by != want.by {
			t.Fatalf("%+v, want %+v\n%+v\n%+v", got, want, p, s)
		}
		seen[fmt.Sprint(got.what, got.by)]++
	}
	if len(seen) < 14 { // eight ends, a ping, a miss, OnDrain, two rates that have to be measured, and nothing
		t.Errorf("only %v came first", seen)
	}
}

// TestBytesPayInFavourOfTheSender: what sends exactly at the minimum rate pays for all time, in pieces of any size, but
// for no more than a minute at once.
func TestBytesPayInFavourOfTheSender(t *testing.T) {
	for _, rate := range []int{1, 3, 7, 240, 999_983, 1 << 30, math.MaxInt32} {
		d := direction{rate: rate}
		for _, piece := range []int{1, 7, 1000, 1 << 20} {
			got, exact := time.Duration(d.worth(piece)), float64(piece)/float64(d.rate)
			if want := min(exact, mostCredit.Seconds()); got.Seconds() < want-1e-9 || got.Seconds() > want+2e-9 {
				t.Errorf("%d bytes at %d B/s pay for %v, want %vs", piece, d.rate, got, want)
			}
		}
		if d.worth(0) != 0 || d.worth(-5) != 0 {
			t.Error("no bytes pay")
		}
	}
}
