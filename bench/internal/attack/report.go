package attack

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
)

// A Report is the result of Run.
type Report struct {
	Server    string  `json:"server"`
	Attackers int     `json:"attackers"`
	Honest    int     `json:"honest"`
	Slow      int     `json:"slow"` // honest clients that are slow
	Duration  float64 `json:"duration_s"`
	Limits    struct {
		Header    float64 `json:"header_s"`
		Body      float64 `json:"body_s"`
		Rate      int     `json:"body_bytes_per_s"`
		Grace     float64 `json:"grace_s"`
		Write     float64 `json:"write_s"`
		WriteRate int     `json:"write_bytes_per_s"`
		KeepAlive float64 `json:"keep_alive_s"`
	} `json:"limits"`
	Where
	Runs   []*outcome `json:"runs"`
	Passed bool       `json:"passed"`
	Faults []string   `json:"faults"` // of ours

	late time.Duration
}

// A Where is what machine figures are from.
type Where struct {
	GoVersion string `json:"go_version"`
	Platform  string `json:"platform"`
	CPUs      int    `json:"cpus"`
}

func here() Where {
	return Where{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, runtime.NumCPU()}
}

// An outcome is what came of a battle.
type outcome struct {
	Variant     string    `json:"variant"`
	Descriptors string    `json:"descriptors"` // ample or scarce
	Honest      service   `json:"honest"`
	Uploads     service   `json:"slow_uploads"`
	Downloads   service   `json:"slow_downloads"`
	Attacks     []defence `json:"attacks"`
	Full        state     `json:"server_full"` // soon after the attackers have come
	End         state     `json:"server_end"`
}

// A service is how honest clients of a kind were served.
type service struct {
	Requests    int     `json:"requests"`
	Failed      int     `json:"failed"`
	Missed      int     `json:"missed"`       // not made, as the client still waited for an answer
	SuccessRate float64 `json:"success_rate"` // of requests made
	ServedRate  float64 `json:"served_rate"`  // of requests that were to be made
	Latency     struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
		Max float64 `json:"max"`
	} `json:"latency_ms"` // of requests that succeeded
	Error string `json:"first_error,omitempty"`
}

// A defence is what became of the attackers of a kind.
type defence struct {
	Kind      string        `json:"kind"`
	Attackers int           `json:"attackers"`
	Cut       int           `json:"cut"`
	Early     int           `json:"early"`         // of those cut, before their limit
	Past      stats.Summary `json:"past_limit_ms"` // how long after it they were cut; before it if negative
	Outlived  int           `json:"outlived"`      // cut, or living, long after their limit
	Holding   int           `json:"holding"`       // had a connection at the end
}

func newReport(cfg Config) *Report {
	r := &Report{
		Server: cfg.Server, Attackers: cfg.Attackers, Honest: cfg.Honest, Slow: cfg.slow(), Duration: cfg.Duration.Seconds(),
		Where: here(), Faults: []string{}, late: cfg.Late,
	}
	l := &r.Limits
	l.Header, l.Body, l.Write, l.KeepAlive = cfg.Header.Seconds(), cfg.Body.Seconds(), cfg.Write.Seconds(), cfg.KeepAlive.Seconds()
	l.Rate, l.WriteRate, l.Grace = cfg.Rate, cfg.WriteRate, cfg.Grace.Seconds()
	return r
}

// outcome sums up a battle that ended at the given time.
func (b *battle) outcome(at time.Time, full, end state) *outcome {
	o := &outcome{
		Honest: b.quick.service(), Uploads: b.uploads.service(), Downloads: b.downloads.service(),
		Full: full, End: end,
	}
	for _, k := range b.kinds() {
		same := slices.DeleteFunc(slices.Clone(b.attackers), func(a *attacker) bool { return a.name != k.name })
		if len(same) > 0 {
			o.Attacks = append(o.Attacks, defend(same, at, b.Late))
		}
	}
	return o
}

// defend sums up what became of attackers of a kind.
func defend(attackers []*attacker, end time.Time, late time.Duration) defence {
	d := defence{Kind: attackers[0].name, Attackers: len(attackers)}
	var pasts []float64
	for _, a := range attackers {
		cut, past := a.outcome(end)
		if past > late {
			d.Outlived++
		}
		if !cut {
			d.Holding++
			continue
		}
		d.Cut++
		pasts = append(pasts, millis(past))
		if past < 0 {
			d.Early++
		}
	}
	if d.Cut > 0 {
		d.Past = stats.Summarize(pasts)
	}
	return d
}

func (c *clients) service() service {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := service{Requests: c.requests, Failed: c.failed, Missed: c.missed}
	s.Latency.P50, s.Latency.P99, s.Latency.Max = millis(c.latency.At(50)), millis(c.latency.At(99)), millis(c.latency.Most())
	if c.requests > 0 {
		served := float64(c.requests - c.failed)
		s.SuccessRate = round(served/float64(c.requests), 5)
		s.ServedRate = round(served/float64(c.requests+c.missed), 5)
	}
	if c.err != nil {
		s.Error = c.err.Error()
	}
	return s
}

// judge finds the faults of ours.
func (r *Report) judge() {
	for _, o := range r.Runs {
		if o.Variant != server.Ours {
			continue
		}
		fault := func(format string, args ...any) {
			r.Faults = append(r.Faults, o.Descriptors+" descriptors: "+fmt.Sprintf(format, args...))
		}
		for _, s := range []struct {
			who string
			service
		}{{"honest clients", o.Honest}, {"slow uploads", o.Uploads}, {"slow downloads", o.Downloads}} {
			if s.Failed > 0 || s.Requests == 0 {
				fault("%s: %d of %d requests failed; the first: %s", s.who, s.Failed, s.Requests, s.Error)
			}
		}
		for _, d := range o.Attacks {
			if d.Early > 0 {
				fault("%s: %d of %d were cut before their limit, by up to %v ms", d.Kind, d.Early, d.Attackers, -d.Past.Min)
			}
			if d.Outlived > 0 {
				fault("%s: %d of %d outlived their limit by more than %v", d.Kind, d.Outlived, d.Attackers, r.late)
			}
		}
	}
	r.Passed = len(r.Faults) == 0
}

// Status is the exit status.
func (r *Report) Status() int {
	if r.Passed {
		return program.Pass
	}
	return program.Fail
}

func millis(d time.Duration) float64 { return round(float64(d)/float64(time.Millisecond), 3) }

func round(v float64, digits int) float64 {
	unit := math.Pow10(digits)
	return math.Round(v*unit) / unit
}
