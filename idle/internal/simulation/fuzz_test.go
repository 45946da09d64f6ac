package simulation

import (
	"math"
	"math/big"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// FuzzPolicy makes trackers of policies of any values. Each is refused with an
// error that names the field, if and only if the words of Policy say that it
// makes no sense; or it times out a connection when the ledger says so.
func FuzzPolicy(f *testing.F) {
	const ms, s, year = int64(time.Millisecond), int64(time.Second), int64(365 * 24 * time.Hour)
	add := func(tick, idleFor, read, write, phase, age, jitter, grace, interval, timeout int64, misses int, passive bool, readRate int, readGrace int64, writeRate int, writeGrace int64, explicit bool, bytes uint16, fold bool) {
		f.Add(tick, idleFor, read, write, phase, age, jitter, grace, interval, timeout, misses, passive, readRate, readGrace, writeRate, writeGrace, explicit, bytes, fold)
	}
	add(0, s, s/2, s/3, 0, 0, 0, 0, 0, 0, 0, false, 0, 0, 0, 0, false, 0, false)
	add(10*ms, 60*s, 10*s+1, 10*s-1, 0, 3600*s, 60*s, 10*s, 30*s, 10*s, 2, false, 240, 5*s, 240, 5*s, false, 1000, false)
	add(ms, 0, 0, 0, 5*s, 0, 0, 0, 0, 0, 0, false, 1, s, 0, 0, false, 60, false)
	add(10*s, 0, 0, 0, 0, maxTicks*10*s, 0, 0, 0, 0, 0, false, 0, 0, 0, 0, false, 0, false)
	add(10*s, 0, 0, 0, 0, 0, 0, 0, maxTicks/101*10*s, maxTicks/101*10*s, 100, false, 0, 0, 0, 0, false, 0, false)
	add(7*ms, 0, 0, 0, 0, 0, 0, 0, 11*s, 3*s, 3, true, math.MaxInt, 7*ms, math.MaxInt, 8*ms, false, 65535, false)
	add(10*ms, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, 0, 0, 0, 0, false, 0, false)
	add(10*ms, math.MinInt64, math.MaxInt64, 1, s, 20*year, math.MaxInt64, math.MaxInt64, s, math.MaxInt64, math.MinInt, false, -1, s, 5, 0, false, 0, false)
	add(10*ms, 0, 0, 0, s, 0, 0, 0, s, s, 0, true, 0, 0, 0, 0, false, 0, false)
	add(20*ms, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, 0, 0, 0, 0, true, 9, false)
	add(20*ms, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, 5, s, 0, 0, true, 9, false)
	add(3*ms, 11, 22, 31, 40, 53, 61, 74, 89, 97, -5, true, -7, 101, 13, 128, false, 500, true)
	f.Fuzz(func(t *testing.T, tick, idleFor, read, write, phase, age, jitter, grace, interval, timeout int64, misses int, passive bool, readRate int, readGrace int64, writeRate int, writeGrace int64, explicit bool, bytes uint16, fold bool) {
		p := idle.Policy{
			Name:        "fuzzed",
			IdleTimeout: time.Duration(idleFor), ReadTimeout: time.Duration(read), WriteTimeout: time.Duration(write),
			PhaseTimeout: time.Duration(phase), ExplicitUse: explicit,
			MaxAge: time.Duration(age), MaxAgeJitter: time.Duration(jitter), MaxAgeGrace: time.Duration(grace),
			Heartbeat:   idle.Heartbeat{Interval: time.Duration(interval), Timeout: time.Duration(timeout), Misses: misses, Passive: passive},
			MinReadRate: idle.Rate{BytesPerSecond: readRate, Grace: time.Duration(readGrace)}, MinWriteRate: idle.Rate{BytesPerSecond: writeRate, Grace: time.Duration(writeGrace)},
		}
		if fold {
			tick = int64(minTick) + int64(uint64(tick)%uint64(maxTick-minTick))
			p = folded(p, time.Duration(tick))
		}
		tryPolicy(t, p, time.Duration(tick), int(bytes))
	})
}

// folded makes a policy that is accepted of any values: most of any are not, and
// would find nothing but that.
func folded(p idle.Policy, tick time.Duration) idle.Policy {
	fold := func(d *time.Duration) {
		if *d%3 == 0 {
			*d = 0
		} else {
			*d = tick + time.Duration(uint64(*d)%uint64(3000*tick))
		}
	}
	for _, d := range []*time.Duration{
		&p.IdleTimeout, &p.ReadTimeout, &p.WriteTimeout, &p.PhaseTimeout, &p.MaxAge, &p.MaxAgeJitter, &p.MaxAgeGrace,
		&p.Heartbeat.Interval, &p.Heartbeat.Timeout, &p.MinReadRate.Grace, &p.MinWriteRate.Grace,
	} {
		fold(d)
	}
	if p.MaxAge == 0 {
		p.MaxAgeJitter, p.MaxAgeGrace = 0, 0
	}
	if h := &p.Heartbeat; h.Interval == 0 || h.Timeout == 0 && !h.Passive {
		*h = idle.Heartbeat{}
	} else {
		h.Misses = int(uint(h.Misses) % (maxMisses + 1))
	}
	for _, r := range []*idle.Rate{&p.MinReadRate, &p.MinWriteRate} {
		if r.BytesPerSecond = int(uint(r.BytesPerSecond) % 4e6); r.Grace == 0 || r.BytesPerSecond == 0 {
			*r = idle.Rate{}
		}
	}
	if h := p.Heartbeat; h.Interval > 0 && !h.Passive && !p.ExplicitUse {
		p.IdleTimeout = min(p.IdleTimeout, h.Interval)
	}
	if !p.SetsLimit() {
		p.IdleTimeout = tick
	}
	return p
}

func tryPolicy(t *testing.T, p idle.Policy, tick time.Duration, bytes int) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := idle.New(p, &idle.Options{Tick: tick, Shards: 1})
		if tick == 0 {
			tick = idle.TickFor(p)
		}
		wrong := whatIsWrong(p, tick)
		switch {
		case err != nil && len(wrong) == 0:
			t.Fatalf("%+v with a tick of %v is refused: %v", p, tick, err)
		case err == nil && len(wrong) > 0:
			t.Errorf("%+v with a tick of %v is accepted, but wrong are %v", p, tick, wrong)
		case err != nil:
			for _, name := range wrong {
				if strings.Contains(err.Error(), name) {
					return
				}
			}
			t.Fatalf("%q names none of %v", err, wrong)
		}
		defer tr.Close()
		time.Sleep(3*time.Millisecond + 456789)
		o := &fuzzed{t: t, start: time.Now()}
		o.ledger = newLedger(p, tick, 0, func() bool { return measures(&o.conn) })
		if err := tr.Track(&o.conn, o, hooksOfFuzzed); err != nil {
			t.Fatal(err)
		}
		o.live(bytes)
	})
}

// whatIsWrong names the fields that make no sense by the words of Policy. It
// cannot overflow.
func whatIsWrong(p idle.Policy, tick time.Duration) (wrong []string) {
	if tick < time.Millisecond || tick > 10*time.Second {
		return []string{"Options.Tick"}
	}
	check := func(name string, bad bool) {
		if bad {
			wrong = append(wrong, name)
		}
	}
	longest := new(big.Int).Mul(big.NewInt(1<<28), big.NewInt(int64(tick)))
	tooLong := func(times int, ds ...time.Duration) bool {
		sum := new(big.Int)
		for _, d := range ds {
			sum.Add(sum, big.NewInt(int64(d)))
		}
		return sum.Mul(sum, big.NewInt(int64(times))).Cmp(longest) > 0
	}
	duration := func(name string, d time.Duration) {
		check(name, d < 0 || d > 0 && d < tick || tooLong(1, d))
	}
	duration("IdleTimeout", p.IdleTimeout)
	duration("ReadTimeout", p.ReadTimeout)
	duration("WriteTimeout", p.WriteTimeout)
	duration("PhaseTimeout", p.PhaseTimeout)
	duration("MaxAge", p.MaxAge)
	duration("MaxAgeJitter", p.MaxAgeJitter)
	duration("MaxAgeGrace", p.MaxAgeGrace)
	check("MaxAge with jitter and grace", tooLong(1, p.MaxAge, p.MaxAgeJitter, p.MaxAgeGrace))
	check("MaxAge is 0", p.MaxAge == 0 && (p.MaxAgeJitter != 0 || p.MaxAgeGrace != 0))

	h := p.Heartbeat
	duration("Heartbeat.Interval", h.Interval)
	duration("Heartbeat.Timeout", h.Timeout)
	check("Heartbeat.Interval is 0", h.Interval == 0 && h != idle.Heartbeat{})
	check("Heartbeat.Timeout is 0", h.Interval > 0 && h.Timeout == 0 && !h.Passive)
	check("Heartbeat.Misses", h.Misses < 0 || h.Misses > 100)
	check("Heartbeat.Misses", h.Misses <= 100 && tooLong(max(h.Misses, 1)+1, max(h.Interval, h.Timeout)))

	check("IdleTimeout", p.IdleTimeout > h.Interval && h.Interval > 0 && !h.Passive && !p.ExplicitUse)

	rate := func(name string, r idle.Rate) {
		check(name+".BytesPerSecond", r.BytesPerSecond < 0 || r.BytesPerSecond == 0 && r.Grace != 0)
		duration(name+".Grace", r.Grace)
		check(name+".Grace is 0", r.BytesPerSecond > 0 && r.Grace == 0)
	}
	rate("MinReadRate", p.MinReadRate)
	rate("MinWriteRate", p.MinWriteRate)
	check("no limit", p == idle.Policy{Name: p.Name, ExplicitUse: p.ExplicitUse})
	return wrong
}

// A fuzzed is a connection that sends some bytes at first, and then nothing; to
// it, nothing goes out at all. It notes what becomes of it.
type fuzzed struct {
	conn    idle.Conn
	t       *testing.T
	start   time.Time
	mu      sync.Mutex // the race detector knows nothing of virtual time
	ledger  *ledger
	expired bool
}

var hooksOfFuzzed = &idle.Hooks{
	Ping:    func(o any) error { return o.(*fuzzed).Ping() },
	OnDrain: func(o any) { o.(*fuzzed).OnDrain() },
	Expire:  func(o any, err *idle.TimeoutError) { o.(*fuzzed).Expire(err) },
}

func (o *fuzzed) now() time.Duration { return time.Since(o.start) }

// live begins a write that waits forever, sends some bytes, and no more.
func (o *fuzzed) live(bytes int) {
	g := o.ledger
	g.write.await(o.now())
	o.conn.AwaitWrite()
	g.read.pays(g.policy.MinReadRate, bytes, o.now(), g)
	g.read.lax += 1 // rounding
	g.arrived(o.now())
	o.conn.Received(bytes)
	o.follow()
}

// follow waits until the connection is timed out, for one deadline of the ledger
// after the other.
func (o *fuzzed) follow() {
	g := o.ledger
	o.mu.Lock()
	defer o.mu.Unlock()
	for range 2 * maxMisses {
		next := never
		for _, s := range g.spans() {
			next = min(next, s.hi)
		}
		if next == never {
			o.t.Fatalf("nothing is ahead of %+v", g)
		}
		o.mu.Unlock()
		time.Sleep(next - o.now() + 1)
		synctest.Wait()
		o.mu.Lock()
		if o.expired {
			return
		}
		if late, ok := g.overdue(o.now(), func(span) time.Duration { return 0 }); ok {
			o.t.Fatalf("at %v: late: %v\n%+v", o.now(), late, g)
		}
	}
	o.t.Fatalf("never timed out: %+v", g)
}

func (o *fuzzed) check(r idle.Reason, what string) {
	if s, ok := o.ledger.may(r, what, o.now()); !ok || o.now() > s.hi {
		o.t.Errorf("at %v: %s, but want %v\n%+v", o.now(), what, s, o.ledger)
	}
}

func (o *fuzzed) Expire(err *idle.TimeoutError) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.check(err.Reason, err.Reason.String())
	o.expired = true
}

func (o *fuzzed) Ping() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.check(0, "ping")
	o.ledger.pings = append(o.ledger.pings, o.now())
	return nil
}

func (o *fuzzed) OnDrain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.check(0, "tell")
	o.ledger.tells(o.now(), true)
}
