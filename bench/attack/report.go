package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"time"
)

// A report is the result of a test.
type report struct {
	Server    string  `json:"server"`
	Attackers int     `json:"attackers"`
	Honest    int     `json:"honest"`
	Slow      int     `json:"slow"` // honest clients that are slow
	Duration  float64 `json:"duration_s"`
	Limits    struct {
		Header    float64 `json:"header_s"` // and the handshake
		Body      float64 `json:"body_s"`
		Rate      int     `json:"body_bytes_per_s"`
		Grace     float64 `json:"grace_s"`
		Write     float64 `json:"write_s"`
		WriteRate int     `json:"write_bytes_per_s"`
		KeepAlive float64 `json:"keep_alive_s"`
	} `json:"limits"`
	GoVersion string `json:"go_version"`
	Platform  string `json:"platform"`
	CPUs      int    `json:"cpus"`

	Runs   []*outcome `json:"runs"`
	Passed bool       `json:"passed"`
	Faults []string   `json:"faults"` // of ours

	late time.Duration
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

// A state is how the server is, as it says itself and as others see it.
type state struct {
	snapshot
	RSS int64 `json:"rss_bytes"`
	unsent
}

// A service is how honest clients of a kind were served.
type service struct {
	Requests    int     `json:"requests"`
	Failed      int     `json:"failed"`
	Missed      int     `json:"missed"`       // were not even made, as the one before was still waited for
	SuccessRate float64 `json:"success_rate"` // of those made
	ServedRate  float64 `json:"served_rate"`  // of those that were to be made
	Latency     latency `json:"latency_ms"`   // of requests that succeeded
	Error       string  `json:"first_error,omitempty"`
}

type latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// A defence is what became of the attackers of a kind.
type defence struct {
	Kind      string `json:"kind"`
	Attackers int    `json:"attackers"`
	Cut       int    `json:"cut"`
	Early     int    `json:"early"` // of those, before their limit
	Past      past   `json:"past_limit_ms"`
	Outlived  int    `json:"outlived"` // cut, or living, long after their limit
	Holding   int    `json:"holding"`  // had a connection at the end
}

// A past is how long after their limits attackers were cut. It is negative for
// those that were cut before.
type past struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func newReport(cfg config) *report {
	r := &report{
		Server: cfg.server, Attackers: cfg.attackers, Honest: cfg.honest, Slow: cfg.slow(), Duration: cfg.duration.Seconds(),
		GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Faults: []string{}, late: cfg.late,
	}
	l := &r.Limits
	l.Header, l.Body, l.Write, l.KeepAlive = cfg.header.Seconds(), cfg.body.Seconds(), cfg.write.Seconds(), cfg.keepAlive.Seconds()
	l.Rate, l.WriteRate, l.Grace = cfg.rate, cfg.writeRate, cfg.grace.Seconds()
	return r
}

func (r *report) add(o *outcome) { r.Runs = append(r.Runs, o) }

// outcome makes the outcome of a battle that ended at the given time.
func (b *battle) outcome(at time.Time, full, end state) *outcome {
	o := &outcome{
		Honest: b.quick.service(), Uploads: b.uploads.service(), Downloads: b.downloads.service(),
		Full: full, End: end,
	}
	for _, k := range kindsFor(b.cfg) {
		var same []*attacker
		for _, a := range b.attackers {
			if a.kind.name == k.name {
				same = append(same, a)
			}
		}
		if len(same) > 0 {
			o.Attacks = append(o.Attacks, defend(k.name, same, at, b.cfg.late))
		}
	}
	return o
}

// defend sums up what became of attackers of a kind.
func defend(kind string, attackers []*attacker, end time.Time, late time.Duration) defence {
	d := defence{Kind: kind, Attackers: len(attackers)}
	var pasts []time.Duration
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
		pasts = append(pasts, past)
		if past < 0 {
			d.Early++
		}
	}
	if d.Cut > 0 {
		slices.Sort(pasts)
		d.Past = past{millis(pasts[len(pasts)/2]), millis(pasts[0]), millis(pasts[len(pasts)-1])}
	}
	return d
}

func (c *clients) service() service {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := service{Requests: c.requests, Failed: c.failed, Missed: c.missed, Latency: c.latency.latency()}
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
func (r *report) judge() {
	for _, o := range r.Runs {
		if o.Variant != ours {
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

// json writes r as one object.
func (r *report) json(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func millis(d time.Duration) float64 { return round(float64(d)/float64(time.Millisecond), 3) }

func round(v float64, digits int) float64 {
	unit := math.Pow10(digits)
	return math.Round(v*unit) / unit
}
