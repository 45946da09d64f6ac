package main

import (
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
		Allowed: level{moreGoroutines, moreDescriptors, heapAllowance(cfg.conns), 0},
	}
}

func newServerReport(t *target, a *account, st idle.Stats) serverReport {
	r := serverReport{
		Name: t.name, Dials: t.dials.Load(), Tracked: st.Tracked, Live: st.Live, Gone: st.Gone,
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
	r.HeapEach = bytesEach(r.Start, r.End, r.Served)
	r.Late = t.lateness.Summary()
	for i := range r.Windows {
		r.Windows[i].Closed, r.Windows[i].Late = t.windows[i].Count(), t.windows[i].Summary()
	}
	r.Drift = driftOf(r.Windows)
}

// driftOf compares the halves.
func driftOf(windows []window) drift {
	half := len(windows) / 2
	of := func(windows []window, get func(spread.Summary) float64) float64 {
		var all []float64
		for _, w := range windows {
			all = append(all, get(w.Late))
		}
		return stats.Median(all)
	}
	rise := func(get func(spread.Summary) float64) float64 {
		if half == 0 {
			return 0
		}
		return table.Round(of(windows[half:], get)-of(windows[:half], get), 3)
	}
	return drift{rise(func(l spread.Summary) float64 { return l.P50 }), rise(func(l spread.Summary) float64 { return l.P99 })}
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
