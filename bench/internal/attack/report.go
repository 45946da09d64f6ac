package attack

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/slow"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// A Report is the result of Run.
type Report struct {
	Server    string             `json:"server"`
	Attackers int                `json:"attackers"`
	Honest    int                `json:"honest"`
	Slow      int                `json:"slow"` // honest clients that are slow
	Duration  float64            `json:"duration_s"`
	Limits    map[string]float64 `json:"limits"` // in seconds, and in bytes a second
	machine.Where
	Runs   []*outcome `json:"runs"`
	Floods []*flood   `json:"floods,omitempty"`
	Passed bool       `json:"passed"`
	Faults []string   `json:"faults"` // of ours

	cfg Config
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
	Requests    int            `json:"requests"`
	Failed      int            `json:"failed"`
	Missed      int            `json:"missed"`       // not made, as the client still waited for an answer
	SuccessRate float64        `json:"success_rate"` // of requests made
	ServedRate  float64        `json:"served_rate"`  // of requests that were to be made
	Latency     spread.Summary `json:"latency_ms"`   // of requests that succeeded
	Error       string         `json:"first_error,omitempty"`
}

// A defence is what became of the attackers of a case.
type defence struct {
	Case      string        `json:"case"`
	Limit     slow.Limit    `json:"limit"`
	Attackers int           `json:"attackers"`
	Cut       int           `json:"cut"`
	Early     int           `json:"early"`             // of those cut, before their limit
	Past      stats.Summary `json:"past_limit_ms"`     // how long after it they were cut; before it if negative
	Outlived  int           `json:"outlived"`          // cut, or living, long after their limit
	Holding   int           `json:"holding"`           // had a connection at the end
	Refused   int           `json:"refused,omitempty"` // could not begin
	Why       string        `json:"why,omitempty"`     // of the first of these

	pasts []float64
}

func newReport(cfg Config) *Report {
	return &Report{
		Server: cfg.Server, Attackers: cfg.Attackers, Honest: cfg.Honest, Slow: cfg.slow(), Duration: cfg.Duration.Seconds(),
		Limits: map[string]float64{
			"header_s": cfg.Header.Seconds(), "body_s": cfg.Body.Seconds(), "write_s": cfg.Write.Seconds(), "keep_alive_s": cfg.KeepAlive.Seconds(),
			"grace_s": cfg.Grace.Seconds(), "body_bytes_per_s": float64(cfg.Rate), "write_bytes_per_s": float64(cfg.WriteRate),
		},
		Where: machine.Here(), Faults: []string{}, cfg: cfg,
	}
}

// outcome sums up a battle.
func (b *battle) outcome(attackers []slow.Result, full, end state) *outcome {
	o := &outcome{
		Honest: b.quick.served(), Uploads: b.uploads.served(), Downloads: b.downloads.served(),
		Full: full, End: end,
	}
	for _, c := range b.cases() {
		same := slices.DeleteFunc(slices.Clone(attackers), func(r slow.Result) bool { return r.Name != c.Name })
		if len(same) > 0 {
			least, most := b.span(c)
			o.Attacks = append(o.Attacks, defend(same, least, most, b.Late))
		}
	}
	return o
}

// defend sums up what became of the attackers of a case, which should end between least and most.
func defend(attackers []slow.Result, least, most, late time.Duration) defence {
	d := defence{Case: attackers[0].Name, Limit: attackers[0].Limit, Attackers: len(attackers)}
	for _, r := range attackers {
		after := time.Duration(r.After * float64(time.Second))
		known := after > 0
		if known && after > most+late {
			d.Outlived++
		}
		switch r.Outcome {
		case slow.Held:
			d.Holding++
		case slow.Ended:
			d.Cut++
			if !known {
				continue
			}
			past := max(0, after-most)
			if after < least {
				d.Early++
				past = after - least
			}
			d.pasts = append(d.pasts, table.Millis(past))
		default:
			d.Refused++
			d.Why = cmp.Or(d.Why, r.Why)
		}
	}
	if len(d.pasts) > 0 {
		d.Past = stats.Summarize(d.pasts)
	}
	return d
}

// served returns how the clients were served.
func (c *clients) served() service {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.service
	s.Latency = c.latency.Summary()
	if s.Requests > 0 {
		s.SuccessRate = table.Round(float64(s.succeeded())/float64(s.Requests), 5)
		s.ServedRate = table.Round(float64(s.succeeded())/float64(s.Requests+s.Missed), 5)
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
				fault("%s: %d of %d were cut before their limit, by up to %v ms", d.Case, d.Early, d.Attackers, -d.Past.Min)
			}
			if d.Outlived > 0 {
				fault("%s: %d of %d outlived their limit by more than %v", d.Case, d.Outlived, d.Attackers, r.cfg.Late)
			}
			if d.Refused > 0 {
				fault("%s: %d of %d could not attack; the first: %s", d.Case, d.Refused, d.Attackers, d.Why)
			}
		}
	}
	for _, f := range r.Floods {
		r.Faults = append(r.Faults, f.faults()...)
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
