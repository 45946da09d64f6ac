package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
)

// A crowd is many real connections to a server, each of which has made a request
// and makes no other. It tells how many bytes a connection takes of the server's
// process, and how the server closes all of them when they go silent at once, while
// some others are active.
type crowd struct {
	Rounds   int          `json:"rounds"`
	Silent   int          `json:"silent_conns,omitempty"` // how many go silent at once
	LimitMS  float64      `json:"limit_ms,omitempty"`     // of their silence
	Active   int          `json:"active_conns,omitempty"` // how many others exchange messages meanwhile
	Waiting  int          `json:"waiting_conns"`          // how many wait while memory is measured
	Variants []crowdShare `json:"variants"`
}

// A crowdShare is of one variant of the server.
type crowdShare struct {
	Name string `json:"name"`

	BytesPerConn float64         `json:"bytes_per_conn"`
	OverBare     float64         `json:"bytes_over_bare"`
	OverBare95   *stats.Interval `json:"bytes_over_bare_95,omitempty"`

	// Of all variants that have a limit.
	LateMS      *stats.Summary  `json:"late_ms,omitempty"`       // the median of the connections, each after its limit
	AllClosedMS *stats.Summary  `json:"all_closed_ms,omitempty"` // after the limit had passed since the last request
	ActiveMS    *spread.Summary `json:"active_ms,omitempty"`     // the active ones waited for an answer meanwhile
	CPUPerClose *stats.Summary  `json:"cpu_us_per_close,omitempty"`
	CPUToOwn    *float64        `json:"cpu_ratio_to_own,omitempty"`
	CPUToOwn95  *stats.Interval `json:"cpu_ratio_to_own_95,omitempty"`
	Early       int             `json:"early"`    // closed before their limit, in all rounds
	NotClosed   int             `json:"unclosed"` // seconds after it
}

const (
	waiting    = 8000 // more, so that what the server takes once does not count
	fewWaiting = 1000 // to servers that are not crowded
	active     = 100
	crowdTries = 3
	ownFiles   = 64 // descriptors that this process needs besides
)

// crowded reports whether a kind of server is measured with a crowd that goes silent, and almost idle.
func crowded(kind string) bool { return plain(kind) && kind != server.WebSocket }

func crowdedKinds() []string {
	return slices.DeleteFunc(server.Kinds(), func(kind string) bool { return !crowded(kind) })
}

// crowdLimit is the limit of so many connections: some ten times of what it takes to
// connect them.
func crowdLimit(silent int) time.Duration {
	return max(2*time.Second, time.Duration(silent)*time.Millisecond)
}

// member is what came of a variant, round by round.
type member struct {
	name             string
	bytes            []float64
	lateMS, allMS    []float64 // the median lateness, and when all were closed
	cpu              []float64 // µs a connection
	active           *spread.Spread
	early, notClosed int
}

// gather measures the crowds of all variants of a server. Those that are not crowded have
// only connections that wait. HTTP/1 over TLS has none: what TLS takes itself is many times
// what timeouts take.
func gather(ctx context.Context, kind string, core int, cfg config, bar *progress.Progress) (*crowd, error) {
	if kind == server.HTTPS {
		return nil, nil
	}
	free := usage.Descriptors() - ownFiles
	c := &crowd{Rounds: cfg.longRounds(), Waiting: int(min(fewWaiting, free))}
	limit := crowdLimit(cfg.silent)
	if crowded(kind) {
		c.Waiting = int(min(waiting, free))
		c.Silent, c.Active, c.LimitMS = cfg.silent, active, table.Millis(limit)
	}
	var all []*member
	for _, name := range cfg.variants(kind) {
		all = append(all, &member{name: name, active: spread.New()})
	}
	for round := range c.Rounds {
		for _, m := range all {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			bar.Say("%s: many connections to %s, round %d of %d", kind, m.name, round+1, c.Rounds)
			if err := m.weigh(kind, core, cfg, c.Waiting); err != nil {
				return nil, fmt.Errorf("%s: the memory of %d connections: %w", m.name, c.Waiting, err)
			}
			if m.name == server.Bare || !crowded(kind) {
				continue // has no limit, or nobody who is silent
			}
			if err := m.silence(kind, core, cfg, c.Silent, limit); err != nil {
				return nil, fmt.Errorf("%s: %d connections that go silent: %w", m.name, c.Silent, err)
			}
		}
	}
	c.sumUp(all)
	return c, nil
}

// sumUp adds the results of the variants, of which the first is bare.
func (c *crowd) sumUp(all []*member) {
	own := slices.IndexFunc(all, func(m *member) bool { return m.name == server.Own })
	for _, m := range all {
		var over []float64
		for i, bytes := range m.bytes {
			over = append(over, bytes-all[0].bytes[i])
		}
		s := crowdShare{
			Name: m.name, Early: m.early, NotClosed: m.notClosed,
			BytesPerConn: math.Round(stats.Median(m.bytes)), OverBare: math.Round(stats.Median(over)), OverBare95: stats.Confidence(over),
		}
		if len(m.cpu) > 0 {
			late, closed, cpu, answers := stats.Summarize(m.lateMS), stats.Summarize(m.allMS), stats.Summarize(m.cpu), m.active.Summary()
			s.LateMS, s.AllClosedMS, s.CPUPerClose, s.ActiveMS = &late, &closed, &cpu, &answers
			if own >= 0 {
				s.CPUToOwn, s.CPUToOwn95 = ratioOf(m.cpu, all[own].cpu)
			}
		}
		c.Variants = append(c.Variants, s)
	}
}

// bytesOver returns how many bytes more a connection takes with one variant than
// with another.
func (c *crowd) bytesOver(name, other string) (bytes int) {
	for _, v := range c.Variants {
		switch v.Name {
		case name:
			bytes += int(v.BytesPerConn)
		case other:
			bytes -= int(v.BytesPerConn)
		}
	}
	return bytes
}
