package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/page"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// A report is the result of a run.
type report struct {
	Mode     string  `json:"mode"` // mock or sockets
	Conns    int     `json:"conns"`
	Duration float64 `json:"duration_s"` // from the first connection to the verdict
	Setup    float64 `json:"setup_s"`    // of that, until all connections were tracked
	IdleMS   float64 `json:"idle_ms"`
	BeatMS   float64 `json:"heartbeat_ms"`
	TickMS   float64 `json:"tick_ms"`
	Shards   int     `json:"shards"`
	Seed     uint64  `json:"seed"`
	machine.Where

	Plan    map[string]int `json:"plan"` // connections by kind
	Touches int64          `json:"touches"`
	Figures
	LoadedNS float64 `json:"touch_loaded_ns,omitempty"` // of a Touch under the load, median of sequential slabs

	judgement
	Unaccounted int            `json:"unaccounted"` // by how much the tracker's counts differ from the oracle's
	Late        spread.Summary `json:"late_ms"`
	Deferred    uint64         `json:"deferred"`

	TrackerCPU float64        `json:"tracker_cpu_pct"` // the passes' time, of one core
	Pause      spread.Summary `json:"pause_ms"`
	Passes     uint64         `json:"passes"`
	Looks      uint64         `json:"looks"`
	Relinks    uint64         `json:"relinks"`
	Pings      uint64         `json:"pings"`
	Misses     uint64         `json:"misses"`
	Kept       uint64         `json:"kept"`
	Gone       uint64         `json:"gone"`

	Steered

	Interrupted   bool `json:"interrupted"`
	LimitsChanged bool `json:"limits_changed"` // by hand, on the page of -http, so there is no verdict

	cfg     config
	samples []standing
	doomed  int64 // how many are meant to be closed
}

// A standing is how things stood at a moment of the run.
type standing struct {
	at     time.Duration // since the start
	busy   time.Duration // that the tracker has worked till then
	live   int
	closed int
}

func newReport(cfg config, conns int) *report {
	r := &report{
		Mode: "mock", Conns: conns,
		IdleMS: table.Millis(cfg.Idle), BeatMS: table.Millis(cfg.Heartbeat), TickMS: table.Millis(cfg.Tick),
		Shards: cfg.Shards, Seed: cfg.seed, Where: machine.Here(),
		Plan: map[string]int{},
		cfg:  cfg,
	}
	r.Scenario = cfg.scenario.String()
	if cfg.sockets > 0 {
		r.Mode = "sockets"
	}
	if r.Shards == 0 {
		r.Shards = runtime.GOMAXPROCS(0)
	}
	return r
}

// passed reports whether the tracker did all that it had to, and no more.
func (r *report) passed() bool {
	return r.Early == 0 && r.Missed == 0 && r.WrongReason == 0 && r.Unaccounted == 0 && len(r.Failures) == 0
}

// Status is the exit status.
func (r *report) Status() int {
	switch {
	case r.Interrupted && r.LimitsChanged:
		return program.Interrupted
	case r.LimitsChanged:
		return program.Trouble
	case !r.passed():
		return program.Fail
	case r.Interrupted:
		return program.Interrupted
	}
	return program.Pass
}

// notJudged is the verdict of a run whose limits the oracle does not know.
const notJudged = "NO VERDICT: limits were changed by hand, so the oracle cannot judge"

// verdict says how it went.
func (r *report) verdict() string {
	text := fmt.Sprintf("PASS: %s connections had to be closed, and exactly those were, each for its reason and none too early.", table.Group(r.Expected))
	switch {
	case r.LimitsChanged:
		text = notJudged
	case !r.passed():
		text = fmt.Sprintf("FAIL: %s had to be closed; %s closed too early, %s not closed though due, %s closed for a wrong reason, %s counted differently by the tracker.",
			table.Group(r.Expected), table.Group(r.Early), table.Group(r.Missed), table.Group(r.WrongReason), table.Group(r.Unaccounted))
		for _, f := range r.Failures {
			text += " " + f + "."
		}
	}
	if r.Interrupted {
		text += "\nInterrupted: this covers what happened until then."
	}
	return text
}

// Table writes r for people.
func (r *report) Table(w io.Writer) {
	add := func(name, format string, args ...any) { table.Entry(w, name, fmt.Sprintf(format, args...), 24) }
	table.Paragraph(w, r.verdict())

	table.Paragraph(w, "\nwhat ran")
	var kinds []string
	for k := range numKinds {
		if n := r.Plan[k.String()]; n > 0 {
			kinds = append(kinds, table.Group(n)+" "+k.String())
		}
	}
	add("connections", "%s", strings.Join(kinds, ", "))
	beats := "no heartbeats"
	if r.cfg.Heartbeat > 0 {
		beats = fmt.Sprintf("a heartbeat every %v, closed after %v without", r.cfg.Heartbeat, r.cfg.staleAfter())
	}
	if r.cfg.scenario.steers() {
		add("scenario", "%s", r.cfg.scenario.does)
	} else {
		add("limits", "closed after %v without activity; %s", r.cfg.Idle, beats)
	}
	add("tracker", "tick %v, shards %d", r.cfg.Tick, r.Shards)
	add("time", "%.1f s, of which %.1f s to set up; %s activities", r.Duration, r.Setup, table.Group(r.Touches))
	add("where", "%s %s, %d CPUs, seed %d", r.GoVersion, r.Platform, r.CPUs, r.Seed)

	table.Paragraph(w, "\nwho was closed")
	add("had to be closed", "%s", table.Group(r.Expected))
	add("closed", "%s", table.Group(r.Closed))
	if r.ByHand > 0 {
		add("of those, by hand", "%s", table.Group(r.ByHand))
	}
	add("too early", "%s, by up to %v ms", table.Group(r.Early), r.EarliestMS)
	add("missed", "%s", table.Group(r.Missed))
	add("wrong reason", "%s", table.Group(r.WrongReason))
	add("draws", "%s, closed in the moment in which they came back, or ended, after their limit", table.Group(r.Draws))
	add("ended by themselves", "%s", table.Group(r.Left))
	add("alive at the end", "%s", table.Group(r.Live))
	add("late", "median %v ms, p99 %v ms, at most %v ms", r.Late.P50, r.Late.P99, r.Late.Max)
	add("deferred", "%s came a tick (%v) or more after they were due", table.Group(r.Deferred), r.cfg.Tick)
	r.Steered.table(w, add)

	table.Paragraph(w, "\nwhat it cost")
	add("an activity", "%v ns of a random connection, %v ns of the same one; %v allocations", r.TouchNS, r.HotNS, r.AllocsPerTouch)
	if r.LoadedNS > 0 {
		add("under the load", "%.1f ns, one connection after the other", r.LoadedNS)
	}
	add("a connection", "%v bytes", r.BytesPerConn)
	add("timing out", "%v %% of a core, in %s passes over due connections", r.TrackerCPU, table.Group(r.Passes))
	add("a pass", "p99 %v ms, at most %v ms", r.Pause.P99, r.Pause.Max)
	add("checks, early reschedules", "%s, %s", table.Group(r.Looks), table.Group(r.Relinks))
	add("pings, misses", "%s, %s", table.Group(r.Pings), table.Group(r.Misses))
	if r.Mode == "sockets" {
		table.Paragraph(w, "The first lines are of as many mock connections, in a process without sockets. Lateness is as the peers see it.")
	}
	if !r.cfg.scenario.steers() && r.Deferred > uint64(r.Closed/10) { // so many that it has to be explained
		table.Paragraph(w, fmt.Sprintf("\n%s of %s were late by a tick or more. That is normal where many are due together: "+
			"the tracker takes half of each tick for them and leaves the rest to the connections that are alive. "+
			"A machine that is busy with other things adds to it. With longer limits (-idle, -heartbeat) or fewer "+
			"connections (-conns), fewer are due together.", table.Group(r.Deferred), table.Group(r.Closed)))
	}
	table.Paragraph(w, "\n"+r.lastLine())
}

// lastLine says in a word whether r has passed.
func (r *report) lastLine() string {
	if r.LimitsChanged {
		return notJudged
	}
	if r.passed() {
		return "PASS"
	}
	what := []string{"FAIL"}
	for _, f := range []struct {
		name string
		n    int
	}{{"early", r.Early}, {"missed", r.Missed}, {"wrong_reason", r.WrongReason}, {"unaccounted", r.Unaccounted}} {
		if f.n > 0 {
			what = append(what, fmt.Sprintf("%s %d", f.name, f.n))
		}
	}
	return strings.Join(append(what, r.Failures...), "; ")
}

// plots are of a run of mock connections.
func (r *report) plots() []page.Plot {
	live, closed, busy := page.Series{Name: "live"}, page.Series{Name: "timed out", Strong: true}, page.Series{Name: "passes", Strong: true}
	for i, s := range r.samples {
		live.X, live.Y = append(live.X, s.at.Seconds()), append(live.Y, float64(s.live))
		closed.X, closed.Y = append(closed.X, s.at.Seconds()), append(closed.Y, float64(s.closed))
		if i > 0 {
			before := r.samples[i-1]
			busy.X, busy.Y = append(busy.X, s.at.Seconds()), append(busy.Y, 100*float64(s.busy-before.busy)/float64(s.at-before.at))
		}
	}
	return []page.Plot{{
		Title: "Connections", Caption: "How many were live, and how many had timed out.",
		XLabel: "seconds", YLabel: "connections", Series: []page.Series{closed, live},
	}, {
		Title: "What timing out costs", Caption: "The time of passes over connections that came up, as a share of a core.",
		XLabel: "seconds", YLabel: "% of a core", Series: []page.Series{busy},
	}}
}
