package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/idle"
)

type report struct {
	Machine  machine.Machine `json:"machine"`
	Conns    int             `json:"conns"`
	Duration float64         `json:"duration_s"` // from the first connection to the judgement
	Setup    float64         `json:"setup_s"`    // of that, until all connections were tracked
	IdleMS   float64         `json:"idle_ms"`
	BeatMS   float64         `json:"heartbeat_ms"`
	TickMS   float64         `json:"tick_ms"`

	Plan    map[string]int `json:"plan"` // connections by kind
	Touches int64          `json:"touches"`

	judgement
	Unaccounted int           `json:"unaccounted"` // by how much the tracker's counts differ from the oracle's
	Late        stats.Summary `json:"late_ms"`

	TrackerCPU float64 `json:"tracker_cpu_pct"` // the passes' time, of one core
	LongestMS  float64 `json:"longest_pass_ms"`
	Deferred   uint64  `json:"deferred"` // ended a tick or more after they were due

	Steered

	cfg config
}

// finish completes the report of a run that took end ns. The tracker is stopped, and has
// handed back so many live connections.
func (r *report) finish(l *load, end int64, st idle.Stats, handedBack int) {
	r.Late, r.LongestMS = l.late.Summary(), table.Millis(l.longest)
	r.Duration = table.Round(time.Duration(end).Seconds(), 3)
	r.Touches, r.Deferred = l.touches.Load(), st.Deferred
	r.TrackerCPU = table.Round(100*float64(st.PassTotal)/float64(end), 3)
	ended := st.Drained + st.Shed + st.Evicted
	for _, n := range st.TimedOut {
		ended += n
	}
	for _, pair := range [][2]int{
		{int(ended), r.Closed}, {int(st.Closed), r.Left}, {int(st.HandedBack), handedBack}, {int(st.Live), 0}, {int(st.Tracked - st.Closed - st.HandedBack), int(ended)},
	} {
		r.Unaccounted += max(pair[0]-pair[1], pair[1]-pair[0])
	}
}

// faults are what is wrong.
func (r *report) faults() (all []string) {
	for _, f := range []struct {
		name string
		n    int
	}{{"too early", r.Early}, {"not closed though due", r.Missed}, {"for a wrong reason", r.WrongReason}, {"counted differently by the tracker", r.Unaccounted}} {
		if f.n > 0 {
			all = append(all, fmt.Sprintf("%s %s", table.Group(f.n), f.name))
		}
	}
	return append(all, r.Failures...)
}

func (r *report) Status() int {
	if len(r.faults()) > 0 {
		return program.Fail
	}
	return program.Pass
}

func (r *report) Table(w io.Writer) {
	var kinds []string
	for k := range numKinds {
		if n := r.Plan[k.String()]; n > 0 {
			kinds = append(kinds, table.Group(n)+" "+k.String())
		}
	}
	rows := [][]string{{"connections", strings.Join(kinds, ", ")}}
	add := func(name, format string, args ...any) {
		rows = append(rows, []string{name, fmt.Sprintf(format, args...)})
	}
	if r.cfg.isSteered() {
		add("scenario", "%s: %s", r.Scenario, r.cfg.scenario.does)
	} else {
		add("limits", "closed after %v without activity, or %v without a heartbeat", r.cfg.idle, r.cfg.staleAfter())
	}
	add("tracker", "tick %v, shards %d", tick, runtime.GOMAXPROCS(0))
	add("time", "%.1f s, of which %.1f s to set up; %s activities", r.Duration, r.Setup, table.Group(r.Touches))
	add("had to be closed", "%s", table.Group(r.Expected))
	add("closed", "%s, of which %s too early, by up to %v ms, and %s for a wrong reason", table.Group(r.Closed), table.Group(r.Early), r.EarliestMS, table.Group(r.WrongReason))
	add("missed", "%s", table.Group(r.Missed))
	add("draws", "%s, closed in the moment in which they became active again, too late", table.Group(r.Draws))
	add("others", "%s ended by themselves, %s were alive at the end", table.Group(r.Left), table.Group(r.Live))
	add("late", "median %v ms, p99 %v ms, at most %v ms; %s by a tick or more", r.Late.P50, r.Late.P99, r.Late.Max, table.Group(r.Deferred))
	switch {
	case r.ReloadS > 0:
		add("the new limit", "was followed by all after %v s", r.ReloadS)
	case r.RateErrorPct > 0:
		add("the drain", "rate off by %v %% in the worst second", r.RateErrorPct)
	case r.AdmissionNS > 0:
		add("an admission", "which evicts: median %v ns, p99 %v ns", r.AdmissionNS, r.AdmissionP99NS)
	}
	add("timing out", "%v %% of a core; the longest pass takes %v ms", r.TrackerCPU, r.LongestMS)
	table.Write(w, r.Machine.String(), rows...)
	if faults := r.faults(); len(faults) > 0 {
		fmt.Fprintf(w, "\nFAIL: %s\n", strings.Join(faults, "; "))
	} else {
		fmt.Fprintf(w, "\nPASS: %s connections had to be closed, and exactly those were, each for its reason and none too early.\n", table.Group(r.Expected))
	}
}
