package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/idle"
)

// A report is the result of a soak.
type report struct {
	Seconds float64 `json:"duration_s"`
	Conns   int     `json:"conns"`
	Seed    uint64  `json:"seed"`
	LimitMS float64 `json:"limit_ms"`
	SlackMS float64 `json:"slack_ms"`
	machine.Where
	Violated  int            `json:"violations"`
	FirstOnes []string       `json:"first_violations"`
	Leaks     []string       `json:"leaks"`
	Servers   []serverReport `json:"servers"`

	Late      spread.Summary `json:"late_ms"`
	Drift     drift          `json:"drift_ms"`
	StalledMS float64        `json:"stalled_ms"` // in which this process did not run: it adds to the slack
	Windows   []window       `json:"windows"`

	Allowed level `json:"allowed"`       // how much more may be in use at the end than at the start
	Empty   level `json:"level_empty"`   // before there was a server
	Start   level `json:"level_start"`   // after the warm-up, without connections
	End     level `json:"level_end"`     // when all connections were closed
	Stopped level `json:"level_stopped"` // when the servers were as well

	Served   int     `json:"served"`                    // connections, after the warm-up
	HeapEach float64 `json:"heap_bytes_per_connection"` // by how much the heap grew from start to end, for each of them

	Interrupted bool `json:"interrupted"`
}

// A serverReport is of one server: what it counted, and what its clients saw.
type serverReport struct {
	Name     string            `json:"name"`
	Dials    uint64            `json:"dials"`
	Tracked  uint64            `json:"tracked"`
	Live     uint64            `json:"live"`
	Gone     uint64            `json:"gone"`
	TimedOut map[string]uint64 `json:"timed_out"`
	Pings    uint64            `json:"pings"`
	Misses   uint64            `json:"misses"`
	Deferred uint64            `json:"deferred"`
	Seen     *account          `json:"seen"`
}

// A window is a part of the time.
type window struct {
	End    float64        `json:"end_s"` // when the levels were measured
	Closed int64          `json:"closed"`
	Late   spread.Summary `json:"late_ms"`
	Stall  float64        `json:"longest_stall_ms"` // in which this process did not run
	level
}

// A drift is by how much lateness rose from the first half of the windows to the
// second, taking the median of each.
type drift struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

func newReport(cfg config) *report {
	return &report{
		Conns: cfg.conns, Seed: cfg.seed, LimitMS: table.Millis(limit), SlackMS: table.Millis(cfg.slack),
		Where:     machine.Here(),
		FirstOnes: []string{}, Leaks: []string{},
		Allowed: allowance(cfg.conns),
	}
}

func newServerReport(t *target, a *account, st idle.Stats) serverReport {
	r := serverReport{
		Name: t.name, Dials: t.dials.Load(), Tracked: st.Tracked, Live: st.Live, Gone: st.Closed,
		TimedOut: map[string]uint64{}, Pings: st.Pings, Misses: st.Misses, Deferred: st.Deferred, Seen: a,
	}
	for reason, n := range st.TimedOut {
		r.TimedOut[reason.String()] = n
	}
	return r
}

// judge takes over what the clients have seen. All levels must be there.
func (r *report) judge(t *tally) {
	r.Violated, r.FirstOnes = t.violated, append(r.FirstOnes, t.faults...)
	r.Leaks = append(r.Leaks, leaks(r.Start, r.End, r.Conns, r.Served)...)
	r.Leaks = append(r.Leaks, climbs(r.Windows, r.Conns)...)
	r.HeapEach = table.Round((r.End.HeapMB-r.Start.HeapMB)*(1<<20)/float64(max(1, r.Served)), 1)
	r.Late = t.lateness.Summary()
	for i := range r.Windows {
		r.Windows[i].Closed, r.Windows[i].Late = t.windows[i].Count(), t.windows[i].Summary()
	}
	r.Drift = driftOf(r.Windows)
}

// driftOf compares the halves.
func driftOf(windows []window) drift {
	if len(windows) < 2 {
		return drift{}
	}
	rise := func(get func(window) float64) float64 {
		var halves [2][]float64
		for i, w := range windows {
			half := 2 * i / len(windows)
			halves[half] = append(halves[half], get(w))
		}
		return table.Round(stats.Median(halves[1])-stats.Median(halves[0]), 3)
	}
	return drift{rise(func(w window) float64 { return w.Late.P50 }), rise(func(w window) float64 { return w.Late.P99 })}
}

// passed reports whether all was as it has to be.
func (r *report) passed() bool { return r.Violated == 0 && len(r.Leaks) == 0 }

// Status is the exit status.
func (r *report) Status() int {
	if r.passed() {
		return program.Pass
	}
	return program.Fail
}

// Table writes r for people.
func (r *report) Table(w io.Writer) {
	fmt.Fprintln(w)
	if r.passed() {
		table.Paragraph(w, "PASS: nobody was closed who was active, everybody who was stale, each for its reason, and nothing leaked.")
	} else {
		fmt.Fprintf(w, "FAIL: %d violations, %d leaks.\n", r.Violated, len(r.Leaks))
	}
	for _, v := range r.FirstOnes {
		table.Entry(w, "violation:", v, 4)
	}
	for _, l := range r.Leaks {
		table.Entry(w, "leak:", l, 4)
	}
	if r.Interrupted {
		fmt.Fprintf(w, "Interrupted after %.0f s: this covers what happened until then.\n", r.Seconds)
	}
	r.tableServers(w)
	r.tableLevels(w)
}

func (r *report) tableServers(w io.Writer) {
	t := table.Table{
		Title:   "\nconnections, as the servers have counted them, and by what reason they timed out",
		Columns: []string{"server", "tracked", "gone", "timed out", "draws", "stalled", "violated", "pings", "deferred"},
		Caption: "Draws ended, or came back, after their limit, as the clients were too late. Stalled ones ended as they must not, but this process had stood still for a limit or longer in the four limits before. What was deferred came a tick or more after it was due.",
	}
	for _, s := range r.Servers {
		var n uint64
		var reasons []string
		for _, reason := range slices.Sorted(maps.Keys(s.TimedOut)) {
			n += s.TimedOut[reason]
			reasons = append(reasons, table.Group(s.TimedOut[reason])+" "+reason)
		}
		t.AddWithRemark(strings.Join(reasons, ", "), s.Name, table.Group(s.Tracked), table.Group(s.Gone), table.Group(n),
			table.Group(s.Seen.Draws), table.Group(s.Seen.Stalled), table.Group(s.Seen.Faults), table.Group(s.Pings), table.Group(s.Deferred))
	}
	t.Write(w)
}

func (r *report) tableLevels(w io.Writer) {
	t := table.Table{
		Title:   "\nwhat was in use, and how many stale connections were closed, how late, in ms",
		Columns: []string{"", "goroutines", "fds", "heap MB", "tracked", "closed", "p50", "p99", "max", "stall"},
		Caption: fmt.Sprintf("In all: p50 %.1f ms, p99 %.1f ms, at most %.1f ms; from the first half to the second it rose by %.1f ms (p50) and %.1f ms (p99). A stall is how long, at most, this process did not get to run. For each of %s connections served after the warm-up the heap grew by %.1f bytes.",
			r.Late.P50, r.Late.P99, r.Late.Max, r.Drift.P50, r.Drift.P99, table.Group(r.Served), r.HeapEach),
	}
	add := func(when string, l level, more ...string) {
		more = append(more, "", "", "", "", "")
		t.Add(append([]string{when, table.Group(l.Goroutines), table.Group(l.Descriptors), tenths(l.HeapMB), table.Group(l.Tracked)}, more[:5]...)...)
	}
	add("no servers", r.Empty)
	add("warm", r.Start)
	for _, win := range r.Windows {
		add(fmt.Sprintf("%.0f s", win.End), win.level, table.Group(win.Closed), tenths(win.Late.P50), tenths(win.Late.P99), tenths(win.Late.Max), fmt.Sprintf("%.0f", win.Stall))
	}
	add("closed", r.End)
	add("allowed more", r.Allowed)
	add("stopped", r.Stopped)
	t.Write(w)
}

func tenths(v float64) string { return fmt.Sprintf("%.1f", v) }
