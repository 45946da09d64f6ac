package main

import (
	"math"
	"runtime"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/idle"
)

// A report is the result of a run.
type report struct {
	Mode      string  `json:"mode"` // mock or sockets
	Conns     int     `json:"conns"`
	Duration  float64 `json:"duration_s"` // from the first connection to the verdict
	Setup     float64 `json:"setup_s"`    // of that, until all connections were tracked
	IdleMS    float64 `json:"idle_ms"`
	BeatMS    float64 `json:"heartbeat_ms"`
	TickMS    float64 `json:"tick_ms"`
	Shards    int     `json:"shards"`
	Seed      uint64  `json:"seed"`
	GoVersion string  `json:"go_version"`
	Platform  string  `json:"platform"`
	CPUs      int     `json:"cpus"`

	Plan map[string]int `json:"plan"` // connections by kind

	Touches int64 `json:"touches"`
	Figures
	LoadedNS float64 `json:"touch_loaded_ns,omitempty"` // of a Touch under the load, median of sequential slabs

	Expected    int     `json:"expected"`
	Closed      int     `json:"closed"`
	Early       int     `json:"early"`
	EarliestMS  float64 `json:"earliest_ms"` // how early the earliest was
	Missed      int     `json:"missed"`
	WrongReason int     `json:"wrong_reason"`
	Unaccounted int     `json:"unaccounted"` // by how much the tracker's counts differ from the oracle's
	Draws       int     `json:"draws"`       // closed while coming back after their limit
	Left        int     `json:"left"`        // ended by themselves
	Live        int     `json:"live"`        // were not due when the run ended

	Late     late   `json:"late_ms"`
	Deferred uint64 `json:"deferred"`

	TrackerCPU float64 `json:"tracker_cpu_pct"` // the passes' time, of one core
	Pause      pause   `json:"pause_ms"`
	Passes     uint64  `json:"passes"`
	Looks      uint64  `json:"looks"`
	Relinks    uint64  `json:"relinks"`
	Pings      uint64  `json:"pings"`
	Misses     uint64  `json:"misses"`
	Kept       uint64  `json:"kept"`
	Gone       uint64  `json:"gone"`

	Interrupted bool `json:"interrupted"`

	cfg      config
	lateness *spread.Spread
	samples  []standing
	doomed   int64 // how many are meant to be closed
}

type late struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

type pause struct {
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func newPause(s *spread.Spread) pause { return pause{millis(s.At(99)), millis(s.Most())} }

func newReport(cfg config) *report {
	r := &report{
		Mode: "mock", Conns: cfg.count(),
		IdleMS: millis(cfg.Idle), BeatMS: millis(cfg.Heartbeat), TickMS: millis(cfg.Tick),
		Shards: cfg.Shards, Seed: cfg.seed,
		GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		CPUs: runtime.GOMAXPROCS(0),
		Plan: map[string]int{},
		cfg:  cfg,
	}
	if cfg.sockets > 0 {
		r.Mode = "sockets"
	}
	if r.Shards == 0 {
		r.Shards = runtime.GOMAXPROCS(0)
	}
	return r
}

// planned counts a life.
func (r *report) planned(l life) {
	r.Plan[l.kind.String()]++
	if l.doomed() {
		r.doomed++
	}
}

// judge takes over what the oracle says.
func (r *report) judge(j judgement, lateness *spread.Spread) {
	r.Expected, r.Closed = j.expected(), j.closed
	r.Early, r.EarliestMS = j.early, millis(j.earliest)
	r.Missed, r.WrongReason, r.Draws = j.missed, j.wrongReason, j.draws
	r.Left, r.Live = j.left, j.alive+j.pending
	r.lateness = lateness
	r.Late = late{millis(lateness.At(50)), millis(lateness.At(99)), millis(lateness.Most())}
}

// tracker takes over what the tracker says, which is stopped and has handed
// back so many live connections. judge must have been called before.
func (r *report) tracker(st idle.Stats, handedBack int, pauses pause, elapsed time.Duration) {
	r.Deferred, r.Passes, r.Looks, r.Relinks = st.Deferred, st.Passes, st.Looks, st.Relinks
	r.Pings, r.Misses, r.Kept, r.Gone = st.Pings, st.Misses, st.Kept, st.Gone
	r.TrackerCPU = round(100*st.Busy.Seconds()/elapsed.Seconds(), 3)
	r.Pause = pauses
	r.Unaccounted = apart(timedOut(st), r.Closed) + apart(st.Gone, r.Left+handedBack) + apart(st.Live, 0)
}

func apart(a uint64, b int) int {
	d := int(a) - b
	return max(d, -d)
}

// passed reports whether the tracker did all that it had to, and no more.
func (r *report) passed() bool {
	return r.Early == 0 && r.Missed == 0 && r.WrongReason == 0 && r.Unaccounted == 0
}

// Status is the exit status.
func (r *report) Status() int {
	switch {
	case !r.passed():
		return program.Fail
	case r.Interrupted:
		return program.Interrupted
	}
	return program.Pass
}

func millis(d time.Duration) float64 { return round(float64(d)/float64(time.Millisecond), 3) }

func seconds(d time.Duration) float64 { return round(d.Seconds(), 3) }

func round(v float64, digits int) float64 {
	unit := math.Pow10(digits)
	return math.Round(v*unit) / unit
}
