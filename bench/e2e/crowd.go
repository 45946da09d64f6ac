package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
)

// A crowd is many real connections to a server, each of which has made a request
// and makes no other. It tells how many bytes a connection takes of the server's
// process, and how the server closes all of them when they go silent at once.
type crowd struct {
	Rounds   int          `json:"rounds"`
	Silent   int          `json:"silent_conns"`  // how many go silent at once
	LimitMS  float64      `json:"limit_ms"`      // of their silence
	Waiting  int          `json:"waiting_conns"` // how many wait while memory is measured
	Variants []crowdShare `json:"variants"`
}

// A crowdShare is of one variant of the server.
type crowdShare struct {
	Name string `json:"name"`

	BytesPerConn float64         `json:"bytes_per_conn"`
	OverBare     float64         `json:"bytes_over_bare"`
	OverBare95   *stats.Interval `json:"bytes_over_bare_95,omitempty"`

	// Of all variants that have a limit.
	AllClosedMS *stats.Summary  `json:"all_closed_ms,omitempty"` // after the limit had passed since the last request
	CPUPerClose *stats.Summary  `json:"cpu_us_per_close,omitempty"`
	CPUToOwn    *float64        `json:"cpu_ratio_to_own,omitempty"`
	CPUToOwn95  *stats.Interval `json:"cpu_ratio_to_own_95,omitempty"`
	Early       int             `json:"early"`    // closed before their limit, in all rounds
	NotClosed   int             `json:"unclosed"` // seconds after it
}

const (
	silent     = 2000
	waiting    = 8000            // more, so that what the server takes once does not count
	crowdLimit = 2 * time.Second // some ten times of what it takes to connect
	crowdTries = 3
	ownFiles   = 64 // descriptors that this process needs besides
)

// crowdRounds is in how many rounds a crowd is gathered: few, as they are long.
func (c *config) crowdRounds() int { return max(c.rounds/10, 1) }

// member is what came of a variant, round by round.
type member struct {
	name             string
	bytes            []float64
	lateMS, cpu      []float64 // µs a connection
	early, notClosed int
}

// gather measures the crowds of all variants of a server. TLS is left out: what it
// takes itself is many times what timeouts take.
func gather(ctx context.Context, kind string, core int, cfg config, bar *progress.Progress) (*crowd, error) {
	if kind == server.HTTPS {
		return nil, nil
	}
	free := usage.Descriptors() - ownFiles
	c := &crowd{Rounds: cfg.crowdRounds(), LimitMS: table.Millis(crowdLimit), Silent: int(min(silent, free)), Waiting: int(min(waiting, free))}
	var all []*member
	for _, name := range cfg.variants(kind) {
		all = append(all, &member{name: name})
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
			if m.name == server.Bare {
				continue // has no limit
			}
			if err := m.silence(kind, core, cfg, c.Silent); err != nil {
				return nil, fmt.Errorf("%s: %d connections that go silent: %w", m.name, c.Silent, err)
			}
		}
	}
	c.sumUp(all)
	return c, nil
}

// weigh measures how much memory connections take of the server's process.
func (m *member) weigh(kind string, core int, cfg config, conns int) error {
	return withCrowd(order{kind, m.name, noTimeout}, core, cfg, func(s *server.Child, c *connections) error {
		var before, after uint64
		if err := s.Ask(&before); err != nil {
			return err
		}
		if err := c.open(conns); err != nil {
			return err
		}
		if _, err := c.exchange(); err != nil {
			return err
		}
		err := s.Ask(&after)
		m.bytes = append(m.bytes, (float64(after)-float64(before))/float64(conns))
		return err
	})
}

// silence has connections go silent together, and waits until they are closed.
func (m *member) silence(kind string, core int, cfg config, conns int) error {
	return withCrowd(order{kind, m.name, crowdLimit}, core, cfg, func(s *server.Child, c *connections) error {
		var asked []time.Time
		var err error
		for try := 0; asked == nil && try < crowdTries; try++ { // on a busy machine some may be silent for too long before the last one has connected
			c.close()
			if err = c.open(conns); err == nil {
				asked, err = c.exchange()
			}
		}
		if err != nil {
			return fmt.Errorf("%d times not all were connected and served within %v; the machine may be too busy: %w", crowdTries, crowdLimit, err)
		}
		due := asked[len(asked)-1].Add(crowdLimit) // the last of them, no sooner
		before, err := usage.CPU(s.Pid())
		if err != nil {
			return err
		}
		last := due
		for i, end := range c.ends() {
			switch {
			case end.IsZero():
				m.notClosed++
			case end.Before(asked[i].Add(crowdLimit)):
				m.early++
			}
			if end.After(last) {
				last = end
			}
		}
		after, err := usage.CPU(s.Pid())
		m.lateMS = append(m.lateMS, table.Millis(last.Sub(due)))
		m.cpu = append(m.cpu, float64(after-before)/float64(conns)/float64(time.Microsecond))
		return err
	})
}

// withCrowd runs a server, and then does something with it and connections to it.
func withCrowd(ord order, core int, cfg config, do func(*server.Child, *connections) error) error {
	s, err := start(ord, core)
	if err != nil {
		return err
	}
	defer s.Stop()
	c, err := newConnections(ord.Kind, s.Address, cfg.size)
	if err != nil {
		return err
	}
	defer c.close()
	return do(s, c)
}

// exchange makes a request on each connection, and takes the answers. It returns when
// each of the requests was made.
func (c *connections) exchange() (asked []time.Time, err error) {
	for _, nc := range c.all {
		asked = append(asked, time.Now())
		if _, err := nc.Write(c.request); err != nil {
			return nil, err
		}
	}
	answer := make([]byte, c.response)
	for _, nc := range c.all {
		nc.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(nc, answer); err != nil {
			return nil, err
		}
	}
	return asked, nil
}

// ends returns when the server has closed each connection, zero if it has not for
// long.
func (c *connections) ends() []time.Time {
	all := make([]time.Time, len(c.all))
	var reading sync.WaitGroup
	for i, nc := range c.all {
		nc.SetReadDeadline(time.Now().Add(crowdLimit + patience))
		reading.Go(func() {
			if _, err := io.Copy(io.Discard, nc); !errors.Is(err, os.ErrDeadlineExceeded) {
				all[i] = time.Now()
			}
		})
	}
	reading.Wait()
	return all
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
			late, cpu := stats.Summarize(m.lateMS), stats.Summarize(m.cpu)
			s.AllClosedMS, s.CPUPerClose = &late, &cpu
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
