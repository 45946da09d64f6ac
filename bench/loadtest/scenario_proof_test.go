//go:build proof

package main

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/idle"
)

// TestScenarios plays all scenarios in virtual time, in which the machine is never busy.
func TestScenarios(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				status, stdout, stderr := invoke("-scenario", sc.name, "-conns", "10000", "-tick", "20ms", "-json")
				wantPass(t, status, stdout, stderr)
				var r map[string]any
				json.Unmarshal([]byte(stdout), &r)
				for _, key := range []string{"steps_max_us", "walk_s", "rate_error_pct", "order_error_pct"} {
					if _, ok := r[key]; !ok {
						t.Errorf("no %s", key)
					}
				}
				if r["scenario"] != sc.name {
					t.Errorf("scenario is %v", r["scenario"])
				}
			})
		})
	}
}

func TestScenarioTable(t *testing.T) {
	status, stdout, stderr := invoke("-scenario", "shed", "-conns", "2000", "-duration", "1600ms", "-idle", "200ms", "-over", "1s")
	if status == program.Trouble || !strings.Contains(stdout, "how they were steered") || stderr != "" {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if last := lines[len(lines)-1]; last != "PASS" && !strings.HasPrefix(last, "FAIL") {
		t.Errorf("the last line is %q", last)
	}
	for _, line := range lines {
		if len([]rune(line)) > 80 {
			t.Errorf("more than 80 columns: %s", line)
		}
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
		{"not shed", "shed", end{}, judgement{Live: 1}},
		{"without the cause", "shed", ended(12*s, 4*s, open, idle.ReasonShed), judgement{Closed: 1, WrongReason: 1}},
		{"beyond the grace", "evict", ended(12*s, 4*s, open, idle.ReasonEvict), judgement{Closed: 1}},
		{"within the grace", "evict", ended(12*s, 10*s, open, idle.ReasonEvict), judgement{Closed: 1, Early: 1, EarliestMS: 500}},
		{"evicted at work", "evict", ended(12*s, 4*s, working, idle.ReasonEvict), judgement{Closed: 1, Early: 1}},
		{"overdue", "reload", ended(11*s, 4*s, open, idle.ReasonIdle), judgement{Closed: 1}},
		{"overdue, but before the change", "reload", ended(9*s, 3*s, open, idle.ReasonIdle), judgement{Closed: 1, Early: 1, EarliestMS: 1000}},
		{"within the shorter limit", "reload", ended(12*s, 8*s, open, idle.ReasonIdle), judgement{Closed: 1, Early: 1, EarliestMS: 1000}},
		{"by the shorter limit, too late", "reload", ended(25*s, 19*s, open, idle.ReasonIdle), judgement{Closed: 1, Early: 1, EarliestMS: float64((unreachable - 6*time.Second).Milliseconds())}},
		{"overdue, and not ended", "reload", end{}, judgement{Missed: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Idle, cfg.duration = 5*time.Second, 0
			if err := cmp.Or(cfg.setScenario(c.scenario), cfg.checkSteering()); err != nil {
				t.Fatal(err)
			}
			l := newLoad(cfg)
			st := l.part.(*steering)
			st.begun, st.stop, st.grace = 10*s, 35*s, 2500*time.Millisecond
			if c.scenario == "shed" {
				st.cause = shedCause
			}
			st.regimes = []regime{{limit: unreachable}, {10 * s, 10 * s, cfg.Idle}, {20 * s, 20 * s, unreachable}}
			st.passes.Add(10)
			p := &st.peers[0]
			p.begin(4*s, open)
			if c.end.at != 0 {
				st.ends[0] = c.end
				p.state.Store(expired)
			}
			var got judgement
			st.judgeOne(&got, p, 40*s)
			if got != c.want {
				t.Errorf("judged %+v, want %+v", got, c.want)
			}
		})
	}
}
