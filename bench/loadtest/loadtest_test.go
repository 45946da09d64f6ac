package main

import (
	"bytes"
	"cmp"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/idle"
)

// invoke runs the program with args.
func invoke(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = newProgram().Invoke(context.Background(), args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestWrongFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-conns 0", "-conns is 0"},
		{"-idle 20ms", "-idle is 20ms"},
		{"-heartbeat 1ms", "-heartbeat is 1ms"},
		{"-duration 5s", "-duration is 5s"},
		{"-scenario flood", "must be idle, reload"},
		{"-scenario drain -duration 10s", "-duration is 10s"},
	} {
		status, stdout, stderr := invoke(strings.Fields(c.args)...)
		if status != program.Trouble || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %q on stdout, %q on stderr; want %q", c.args, status, stdout, stderr, c.want)
		}
	}
}

// TestRuns plays all scenarios in virtual time, in which the machine is never busy.
func TestRuns(t *testing.T) {
	for _, scenario := range []string{"", "-scenario reload", "-scenario drain", "-scenario evict"} {
		t.Run(scenario, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				status, stdout, stderr := invoke(strings.Fields("-conns 10000 " + scenario)...)
				if status != program.Pass || !strings.Contains(stdout, "PASS: ") || stderr != "" {
					t.Errorf("status %d: %s%s", status, stdout, stderr)
				}
			})
		})
	}
}

func TestVerdict(t *testing.T) {
	r := newLoad(testConfig()).rep
	r.judgement = judgement{Expected: 1002, Closed: 1001, Early: 1, Missed: 2}
	var out strings.Builder
	r.Table(&out)
	if r.Status() != program.Fail || !strings.Contains(out.String(), "FAIL: 1 too early; 2 not closed though due") {
		t.Errorf("status %d: %s", r.Status(), &out)
	}
}

func testConfig() config {
	return config{scenario: scenarios()[0], idle: time.Second, heartbeat: 200 * time.Millisecond, conns: 1, duration: 10 * time.Second}
}

const ms = int64(time.Millisecond)

// A story is what happens to one connection, from 1 ms on, at times in ms.
type story struct {
	*load
	*peer
}

type step func(*story)

func touch(at int64) step {
	return func(s *story) { s.load.touched(s.peer, at*ms, at*ms+1) }
}

func expire(at int64, reason idle.Reason) step { return func(s *story) { s.expired(at*ms, reason) } }

func leave(s *story) { s.peer.left() }

func TestOracle(t *testing.T) {
	const idles, heartbeat = idle.ReasonIdle, idle.ReasonHeartbeat
	for _, c := range []struct {
		name string
		kind kind
		tell []step
		want judgement
	}{
		{"closed when due", silent, []step{touch(500), expire(1500, idles)}, judgement{Closed: 1}},
		{"closed a millisecond early", silent, []step{touch(500), expire(1499, idles)}, judgement{Closed: 1, Early: 1, EarliestMS: 1}},
		{"closed for another reason", silent, []step{expire(1500, heartbeat)}, judgement{Closed: 1, WrongReason: 1}},
		{"a beat that stopped", beater, []step{touch(500), expire(800, heartbeat)}, judgement{Closed: 1}},
		{"closed twice", silent, []step{expire(1500, idles), expire(1600, idles)}, judgement{Closed: 1, Early: 1}},
		{"closed after it had left", leaver, []step{leave, expire(5000, idles)}, judgement{Closed: 1, Early: 1}},
		{"left after it was closed", leaver, []step{expire(5000, idles), leave}, judgement{Closed: 1, Early: 1, Left: 1}},
		{"left", leaver, []step{leave}, judgement{Left: 1}},
		{"an active one that really was silent", active, []step{expire(1500, idles)}, judgement{Closed: 1}},
		{"closed while it came back too late", active, []step{touch(1200), expire(1201, idles)}, judgement{Closed: 1, Draws: 1}},
		{"closed though it had come back in time since", active, []step{touch(1200), touch(1300), expire(1301, idles)}, judgement{Closed: 1, Early: 1, EarliestMS: 999}},
		{"an activity that took too long to come in time", active,
			[]step{func(s *story) { s.load.touched(s.peer, 900*ms, 1100*ms) }, expire(1101, idles)}, judgement{Closed: 1, Draws: 1}},
		{"missed", silent, []step{touch(1000)}, judgement{Missed: 1}},
		{"due, but only just", silent, []step{touch(8500)}, judgement{Live: 1}},
		{"not due", active, []step{touch(9500)}, judgement{Live: 1}},
		{"never begun", active, []step{func(s *story) { s.state.Store(unborn) }}, judgement{}},
	} {
		l := newLoad(testConfig())
		s := &story{l, &l.peers[0]}
		s.life = life{kind: c.kind}
		s.begin(1 * ms)
		for _, tell := range c.tell {
			tell(s)
		}
		var got judgement
		got.judge(s.peer, 10_000*ms, l)
		if c.want.EarliestMS == 0 {
			got.EarliestMS = 0
		}
		if got != c.want {
			t.Errorf("%s: judged %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestJudgement tells the judge of one connection, in a scenario that began after 10 s.
func TestJudgement(t *testing.T) {
	const s = int64(time.Second)
	const drain, evict, idles = idle.ReasonDrain, idle.ReasonEvict, idle.ReasonIdle
	for _, c := range []struct {
		name, scenario string
		end            end
		want           judgement
	}{
		{"in its turn", "drain", end{at: 12 * s, last: 4 * s, state: open, reason: drain}, judgement{Closed: 1}},
		{"before the drain", "drain", end{at: 9 * s, last: 4 * s, state: open, reason: drain}, judgement{Closed: 1, Early: 1, EarliestMS: 1000}},
		{"timed out instead", "drain", end{at: 12 * s, last: 4 * s, state: open, reason: idles}, judgement{Closed: 1, WrongReason: 1}},
		{"at work", "drain", end{at: 20 * s, last: 4 * s, state: working, reason: drain}, judgement{Closed: 1, Early: 1, EarliestMS: 15000}},
		{"at work when all are stopped", "drain", end{at: 35 * s, last: 4 * s, state: working, reason: drain}, judgement{Closed: 1}},
		{"at work for less than a pass", "drain", end{at: 12 * s, last: 12*s - 2, state: working, reason: drain}, judgement{Closed: 1, Draws: 1}},
		{"after its work", "drain", end{at: 12 * s, last: 11 * s, state: rested, reason: drain}, judgement{Closed: 1}},
		{"not drained", "drain", end{}, judgement{Missed: 1}},
		{"beyond the grace", "evict", end{at: 12 * s, last: 4 * s, state: open, reason: evict}, judgement{Closed: 1}},
		{"within the grace", "evict", end{at: 12 * s, last: 10 * s, state: open, reason: evict}, judgement{Closed: 1, Early: 1, EarliestMS: 500}},
		{"evicted at work", "evict", end{at: 12 * s, last: 4 * s, state: working, reason: evict}, judgement{Closed: 1, Early: 1}},
		{"overdue", "reload", end{at: 11 * s, last: 4 * s, state: open, reason: idles}, judgement{Closed: 1}},
		{"overdue, but before the change", "reload", end{at: 9 * s, last: 3 * s, state: open, reason: idles}, judgement{Closed: 1, Early: 1, EarliestMS: 1000}},
		{"within the shorter limit", "reload", end{at: 12 * s, last: 8 * s, state: open, reason: idles}, judgement{Closed: 1, Early: 1, EarliestMS: 1000}},
		{"overdue, and not ended", "reload", end{}, judgement{Missed: 1}},
	} {
		cfg := config{idle: 5 * time.Second, conns: 1, duration: 40 * time.Second}
		if err := cmp.Or(cfg.setScenario(c.scenario), cfg.check()); err != nil {
			t.Fatal(err)
		}
		l := newLoad(cfg)
		l.begun, l.changed, l.stop, l.longest = 10*s, 10*s, 35*s, 10
		p := &l.peers[0]
		p.begin(4 * s)
		if c.end.at != 0 {
			p.end = c.end
			p.state.Store(expired)
		}
		var got judgement
		if got.judge(p, 40*s, l); got != c.want {
			t.Errorf("%s, %s: judged %+v, want %+v", c.scenario, c.name, got, c.want)
		}
	}
}

// TestAllowance: without a scenario, a connection may be late by a second, however many there are.
func TestAllowance(t *testing.T) {
	for name, want := range map[string]time.Duration{"idle": time.Second, "reload": 10 * time.Second} {
		l := &load{cfg: &config{conns: 10_000_000}}
		if err := l.cfg.setScenario(name); err != nil {
			t.Fatal(err)
		}
		if got := time.Duration(l.allowance()); got != want+2*tick {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestRateError(t *testing.T) {
	var told tally
	for second, n := range []int64{40, 90, 100, 110, 100, 3} {
		told[second].Store(n)
	}
	if got := told.rateError(); got < 9.999 || got > 10.001 {
		t.Errorf("got %v, want 10", got)
	}
}

// TestPlan: lives are the same each time, and end in time.
func TestPlan(t *testing.T) {
	cfg := testConfig()
	a, b := newPlanner(cfg), newPlanner(cfg)
	var kinds [numKinds]int
	for range 10_000 {
		l := a.next()
		if again := b.next(); again != l {
			t.Fatalf("drew %+v and %+v", l, again)
		}
		kinds[l.kind]++
		if l.quit != never && (l.kind == active || time.Duration(l.quit)*time.Millisecond+cfg.longest() > cfg.duration) {
			t.Fatalf("a %v connection quits at %v ms, and is not due before the end at %v", l.kind, l.quit, cfg.duration)
		}
		// Its last activity may be a sweep before it quits, and it may be found to leave a
		// sweep late.
		silence := cfg.sweepTime() + cfg.idle*time.Duration(l.stay)/256 + cfg.sweepTime()
		if l.kind == leaver && silence >= cfg.idle {
			t.Fatalf("a connection leaves after up to %v, which is too late for the limit of %v", silence, cfg.idle)
		}
	}
	for k, got := range kinds {
		if got == 0 && kind(k) != worker {
			t.Errorf("no connection is %v", kind(k))
		}
	}
}
