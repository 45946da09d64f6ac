package main

import (
	"bytes"
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
		{"-active NaN", "-active is NaN"},
		{"-duration 5s", "-duration is 5s"},
		{"-scenario flood", "must be idle, reload"},
		{"-scenario drain -duration 10s", "-duration is 10s"},
		{"-scenario drain -over 1ms", "-over is 1ms"},
	} {
		status, stdout, stderr := invoke(strings.Fields(c.args)...)
		if status != program.Trouble || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %q on stdout, %q on stderr; want %q", c.args, status, stdout, stderr, c.want)
		}
	}
}

// TestRuns plays all scenarios in virtual time, in which the machine is never busy.
func TestRuns(t *testing.T) {
	for _, name := range []string{"idle", "reload", "drain", "evict"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				status, stdout, stderr := invoke("-scenario", name, "-conns", "10000", "-tick", "20ms")
				if status != program.Pass || !strings.Contains(stdout, "PASS: ") || stderr != "" {
					t.Errorf("status %d: %s%s", status, stdout, stderr)
				}
			})
		})
	}
}

// TestInterruption: an interrupted run reports what it has seen.
func TestInterruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var out, errs bytes.Buffer
		status := newProgram().Invoke(ctx, []string{"-conns", "100"}, &out, &errs)
		if status != program.Interrupted || !strings.Contains(out.String(), "Interrupted") {
			t.Errorf("status %d, %s%s", status, &out, &errs)
		}
	})
}

func TestVerdict(t *testing.T) {
	r := newReport(testConfig())
	r.judgement = judgement{Expected: 1002, Closed: 1001, Early: 1, Missed: 2}
	var out strings.Builder
	r.Table(&out)
	if r.Status() != program.Fail || !strings.Contains(out.String(), "FAIL: 1 too early; 2 not closed though due") {
		t.Errorf("status %d: %s", r.Status(), &out)
	}
}

const ms = int64(time.Millisecond)

func testConfig() config {
	return config{
		limits: limits{Idle: time.Second, Heartbeat: 200 * time.Millisecond, Tick: 10 * time.Millisecond},
		conns:  1, duration: 10 * time.Second, active: 0.5, seed: 1,
	}
}

// A story is what happens to one connection, from 1 ms on.
type story struct {
	*load
	*peer
}

func (s *story) touch(at int64)                 { s.load.touched(s.peer, at*ms, at*ms+1) }
func (s *story) expire(at int64, r idle.Reason) { s.expired(at*ms, r) }

func newStory(k kind) *story {
	l := newLoad(testConfig())
	l.peers[0].life = life{kind: k}
	l.peers[0].begin(1 * ms)
	return &story{l, &l.peers[0]}
}

func TestOracle(t *testing.T) {
	for _, c := range []struct {
		name string
		kind kind
		tell func(s *story)
		want judgement
	}{
		{"closed when due", silent, func(s *story) {
			s.touch(500)
			s.expire(1500, idle.ReasonIdle)
		}, judgement{Closed: 1}},
		{"closed a millisecond early", silent, func(s *story) {
			s.touch(500)
			s.expire(1499, idle.ReasonIdle)
		}, judgement{Closed: 1, Early: 1, EarliestMS: 1}},
		{"closed for another reason", silent, func(s *story) {
			s.expire(1500, idle.ReasonHeartbeat)
		}, judgement{Closed: 1, WrongReason: 1}},
		{"a beat that stopped", beater, func(s *story) {
			s.touch(500)
			s.expire(800, idle.ReasonHeartbeat)
		}, judgement{Closed: 1}},
		{"closed twice", silent, func(s *story) {
			s.expire(1500, idle.ReasonIdle)
			s.expire(1600, idle.ReasonIdle)
		}, judgement{Closed: 1, Early: 1}},
		{"closed after it had left", leaver, func(s *story) {
			s.peer.left()
			s.expire(5000, idle.ReasonIdle)
		}, judgement{Closed: 1, Early: 1}},
		{"left after it was closed", leaver, func(s *story) {
			s.expire(5000, idle.ReasonIdle)
			s.peer.left()
		}, judgement{Closed: 1, Early: 1, Left: 1}},
		{"left", leaver, func(s *story) {
			s.peer.left()
		}, judgement{Left: 1}},
		{"an active one that really was silent", active, func(s *story) {
			s.expire(1500, idle.ReasonIdle)
		}, judgement{Closed: 1}},
		{"closed while it came back too late", active, func(s *story) {
			s.touch(1200)
			s.expire(1201, idle.ReasonIdle)
		}, judgement{Closed: 1, Draws: 1}},
		{"closed though it had come back in time since", active, func(s *story) {
			s.touch(1200)
			s.touch(1300)
			s.expire(1301, idle.ReasonIdle)
		}, judgement{Closed: 1, Early: 1, EarliestMS: 999}},
		{"an activity that took too long to come in time", active, func(s *story) {
			s.load.touched(s.peer, 900*ms, 1100*ms)
			s.expire(1101, idle.ReasonIdle)
		}, judgement{Closed: 1, Draws: 1}},
		{"missed", silent, func(s *story) {
			s.touch(1000)
		}, judgement{Missed: 1}},
		{"due, but only just", silent, func(s *story) {
			s.touch(8500)
		}, judgement{Live: 1}},
		{"not due", active, func(s *story) {
			s.touch(9500)
		}, judgement{Live: 1}},
		{"never begun", active, func(s *story) {
			s.state.Store(unborn)
		}, judgement{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStory(c.kind)
			c.tell(s)
			var got judgement
			got.judge(s.peer, 10_000*ms, s.load, s.load.due)
			if c.want.EarliestMS == 0 {
				got.EarliestMS = 0
			}
			if got != c.want {
				t.Errorf("judged %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestJudgement tells the judge of one connection, in a scenario that began after 10 s.
func TestJudgement(t *testing.T) {
	const s = int64(time.Second)
	ended := func(at, last int64, state uint32, reason idle.Reason) end {
		return end{at: at, last: last, state: state, reason: reason}
	}
	for _, c := range []struct {
		name, scenario string
		end            end
		want           judgement
	}{
		{"in its turn", "drain", ended(12*s, 4*s, open, idle.ReasonDrain), judgement{Closed: 1}},
		{"before the drain", "drain", ended(9*s, 4*s, open, idle.ReasonDrain), judgement{Closed: 1, Early: 1, EarliestMS: 1000}},
		{"timed out instead", "drain", ended(12*s, 4*s, open, idle.ReasonIdle), judgement{Closed: 1, WrongReason: 1}},
		{"at work", "drain", ended(20*s, 4*s, working, idle.ReasonDrain), judgement{Closed: 1, Early: 1, EarliestMS: 15000}},
		{"at work when all are stopped", "drain", ended(35*s, 4*s, working, idle.ReasonDrain), judgement{Closed: 1}},
		{"at work for less than a pass", "drain", ended(12*s, 12*s-2, working, idle.ReasonDrain), judgement{Closed: 1, Draws: 1}},
		{"after its work", "drain", ended(12*s, 11*s, rested, idle.ReasonDrain), judgement{Closed: 1}},
		{"not drained", "drain", end{}, judgement{Missed: 1}},
		{"beyond the grace", "evict", ended(12*s, 4*s, open, idle.ReasonEvict), judgement{Closed: 1}},
		{"within the grace", "evict", ended(12*s, 10*s, open, idle.ReasonEvict), judgement{Closed: 1, Early: 1, EarliestMS: 500}},
		{"evicted at work", "evict", ended(12*s, 4*s, working, idle.ReasonEvict), judgement{Closed: 1, Early: 1}},
		{"overdue", "reload", ended(11*s, 4*s, open, idle.ReasonIdle), judgement{Closed: 1}},
		{"overdue, but before the change", "reload", ended(9*s, 3*s, open, idle.ReasonIdle), judgement{Closed: 1, Early: 1, EarliestMS: 1000}},
		{"within the shorter limit", "reload", ended(12*s, 8*s, open, idle.ReasonIdle), judgement{Closed: 1, Early: 1, EarliestMS: 1000}},
		{"overdue, and not ended", "reload", end{}, judgement{Missed: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Idle, cfg.duration = 5*time.Second, 0
			if err := cfg.setScenario(c.scenario); err != nil {
				t.Fatal(err)
			}
			if err := cfg.checkScenario(); err != nil {
				t.Fatal(err)
			}
			l := newLoad(cfg)
			st := l.steering
			st.begun, st.changed, st.stop = 10*s, 10*s, 35*s
			l.longest = 10
			p := &l.peers[0]
			p.begin(4 * s)
			if c.end.at != 0 {
				p.end = c.end
				p.state.Store(expired)
			}
			var got judgement
			if got.judge(p, 40*s, l, st.window); got != c.want {
				t.Errorf("judged %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestAllowance: without a scenario, a connection may be late by a second, however many there are.
func TestAllowance(t *testing.T) {
	l := &load{cfg: &config{conns: 10_000_000}}
	if got := time.Duration(l.allowance()); got != time.Second {
		t.Errorf("got %v", got)
	}
	l.steering = &steering{load: l}
	if got := time.Duration(l.allowance()); got != 10*time.Second {
		t.Errorf("in a scenario: got %v", got)
	}
}

func TestRateError(t *testing.T) {
	var told tally
	for second, n := range []int{40, 90, 100, 110, 100, 3} {
		for range n {
			told.add(int64(second) * int64(time.Second))
		}
	}
	if got := told.rateError(); got < 9.999 || got > 10.001 {
		t.Errorf("got %v, want 10", got)
	}
}

// TestPlan: lives are the same from the same seed, and end in time.
func TestPlan(t *testing.T) {
	cfg := testConfig()
	a, b := newPlanner(cfg), newPlanner(cfg)
	var kinds [numKinds]int
	for range 10_000 {
		l := a.next()
		if again := b.next(); again != l {
			t.Fatalf("drew %+v and %+v from the same seed", l, again)
		}
		kinds[l.kind]++
		if l.kind == active && l.quit != never {
			t.Fatal("an active connection falls silent")
		}
		if l.quit != never && time.Duration(l.quit)*time.Millisecond+cfg.longest() > cfg.duration {
			t.Fatalf("a %v connection quits at %v ms, and is not due before the end at %v", l.kind, l.quit, cfg.duration)
		}
		// Its last activity may be a sweep before it quits, and it may be found to leave a
		// sweep late.
		silence := cfg.sweepTime() + cfg.Idle*time.Duration(l.stay)/256 + cfg.sweepTime()
		if l.kind == leaver && silence >= cfg.Idle {
			t.Fatalf("a connection leaves after up to %v, which is too late for the limit of %v", silence, cfg.Idle)
		}
	}
	for k, got := range kinds {
		if got == 0 && kind(k) != worker {
			t.Errorf("no connection is %v", kind(k))
		}
	}
}
