//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// A crowd is a measurement with thousands of real connections that make one request and then
// wait. It has the bytes that each one takes in the server's process. It also has how late the
// server closes them if they all fall silent together while other connections are active.
type crowd struct {
	Rounds   int           `json:"rounds"`
	Waiting  int           `json:"waiting_conns"`          // how many wait while memory is measured
	Silent   int           `json:"silent_conns,omitempty"` // how many fall silent together
	LimitMS  float64       `json:"limit_ms,omitempty"`     // of their silence
	Variants []*crowdShare `json:"variants"`
}

// A crowdShare is of one variant of the server. From LateMS on it is of those that have a limit.
type crowdShare struct {
	Name         string          `json:"name"`
	BytesPerConn float64         `json:"bytes_per_conn"`
	OverBare     float64         `json:"bytes_over_bare"`
	OverBare95   *stats.Interval `json:"bytes_over_bare_95,omitempty"`

	LateMS      float64      `json:"late_ms,omitempty"`       // the median of the connections, each after its limit
	AllClosedMS float64      `json:"all_closed_ms,omitempty"` // after the limit had passed since the last request
	ActiveP99MS float64      `json:"active_p99_ms,omitempty"` // for which active ones waited for an answer meanwhile
	CPUPerClose float64      `json:"cpu_us_per_close,omitempty"`
	CPUToOwn    *stats.Ratio `json:"cpu_to_own,omitempty"`
	Early       int          `json:"early"`    // closed before their limit, in all rounds
	NotClosed   int          `json:"unclosed"` // seconds after it

	bytes, lateMS, allMS, cpu []float64 // by round; CPU in µs for each
	active                    stats.Spread
}

const (
	waiting    = 8000 // many, so that what the server takes once does not count
	fewWaiting = 1000 // of those that take much more each
	active     = 100
	crowdTries = 3
	ownFiles   = 64 // descriptors that this process needs besides
)

// gather measures the crowds of all variants. Those that speak TLS only wait; of HTTP/1
// over TLS not even that is measured, because TLS takes many times what timeouts take.
func (b *bench) gather() (*crowd, error) {
	if b.kind == server.HTTPS {
		return nil, nil
	}
	free := machine.Descriptors() - ownFiles
	c := &crowd{Rounds: b.cfg.longRounds(), Waiting: int(min(fewWaiting, free))}
	limit := max(2*time.Second, time.Duration(b.cfg.silent)*time.Millisecond) // ten times of what it takes to connect
	if plain(b.kind) {
		c.Waiting, c.Silent, c.LimitMS = int(min(waiting, free)), b.cfg.silent, table.Millis(limit)
	}
	for _, name := range server.Variants(b.kind) {
		c.Variants = append(c.Variants, &crowdShare{Name: name})
	}
	for round := range c.Rounds {
		for _, m := range c.Variants {
			if err := b.ctx.Err(); err != nil {
				return nil, err
			}
			b.show("%s: many connections to %s, round %d of %d", b.kind, m.Name, round+1, c.Rounds)
			if err := b.weigh(m, c.Waiting); err != nil {
				return nil, fmt.Errorf("%s: the memory of %d connections: %w", m.Name, c.Waiting, err)
			}
			if m.Name == server.Bare || c.Silent == 0 {
				continue
			}
			if err := b.silence(m, c.Silent, limit); err != nil {
				return nil, fmt.Errorf("%s: %d connections that fall silent: %w", m.Name, c.Silent, err)
			}
		}
	}
	c.sumUp()
	return c, nil
}

// sumUp sums up the rounds of the variants. The first variant is bare.
func (c *crowd) sumUp() {
	own := slices.IndexFunc(c.Variants, func(m *crowdShare) bool { return m.Name == server.Own })
	for _, m := range c.Variants {
		var over []float64
		for i, bytes := range m.bytes {
			over = append(over, bytes-c.Variants[0].bytes[i])
		}
		m.BytesPerConn, m.OverBare, m.OverBare95 = math.Round(stats.Median(m.bytes)), math.Round(stats.Median(over)), stats.Confidence(over)
		m.LateMS, m.AllClosedMS, m.CPUPerClose = stats.Median(m.lateMS), stats.Median(m.allMS), stats.Median(m.cpu)
		m.ActiveP99MS = m.active.Summary().P99
		if own >= 0 && len(m.cpu) > 0 {
			m.CPUToOwn = stats.RatioOf(m.cpu, c.Variants[own].cpu)
		}
	}
}

// table writes c.
func (c *crowd) table(w io.Writer, kind string) {
	rows := [][]string{{"", "bytes each", "over bare", "median ms", "last ms", "p99 ms of active ones", "CPU µs each", "of own", ""}}
	for _, v := range c.Variants {
		over, remark := "", ""
		if v.OverBare95 != nil {
			over = fmt.Sprintf("%.0f (%.0f to %.0f)", v.OverBare, v.OverBare95[0], v.OverBare95[1])
		}
		if v.Early+v.NotClosed > 0 {
			remark = fmt.Sprintf("%d too early, %d never", v.Early, v.NotClosed)
		}
		row := []string{v.Name, fmt.Sprintf("%.0f", v.BytesPerConn), over}
		if v.AllClosedMS > 0 {
			row = append(row, table.Figure(v.LateMS), table.Figure(v.AllClosedMS), table.Figure(v.ActiveP99MS), table.Figure(v.CPUPerClose), v.CPUToOwn.String(), remark)
		}
		rows = append(rows, row)
	}
	title := fmt.Sprintf("%s: %s connections wait", kind, table.Group(c.Waiting))
	if c.Silent > 0 {
		title += fmt.Sprintf("; %s fall silent together, limit %.3g s, and are closed after it", table.Group(c.Silent), c.LimitMS/1000)
	}
	table.Write(w, fmt.Sprintf("%s; %d rounds", title, c.Rounds), rows...)
}

// weigh measures how much memory connections take of the server's process.
func (b *bench) weigh(m *crowdShare, conns int) error {
	s, err := b.start(m.Name, noTimeout)
	if err != nil {
		return err
	}
	defer s.Stop()
	before, err := s.memory()
	if err != nil {
		return err
	}
	l, err := b.connect(s.address, conns)
	if err != nil {
		return err
	}
	defer l.close()
	after, err := s.memory()
	m.bytes = append(m.bytes, (float64(after)-float64(before))/float64(conns))
	return err
}

// silence has connections fall silent together, and waits until they are closed.
func (b *bench) silence(m *crowdShare, conns int, limit time.Duration) error {
	s, err := b.start(m.Name, limit)
	if err != nil {
		return err
	}
	defer s.Stop()
	h, err := gatherHerd(b.kind, s.address, conns)
	for try := 1; err != nil && try < crowdTries; try++ { // on a busy machine some may be silent for too long before the last one has connected
		h, err = gatherHerd(b.kind, s.address, conns)
	}
	if err != nil {
		return fmt.Errorf("%d times not all were connected and served within %v; the machine may be too busy: %w", crowdTries, limit, err)
	}
	defer h.close()
	var calmly, meanwhile int
	calm, calmErr := machine.During(s.Pid(), func() (err error) {
		calmly, err = h.watch(h.asked[0].Add(limit), nil)
		return err
	})
	herd, err := machine.During(s.Pid(), func() (err error) {
		meanwhile, err = h.watch(h.asked[conns-1].Add(limit+patience), &m.active)
		return err
	})
	if err := cmp.Or(calmErr, err); err != nil {
		return err
	}
	// What the answers to the active ones have cost isn't for the herd.
	cpu := float64(herd.CPU) - float64(calm.CPU)/float64(max(calmly, 1))*float64(meanwhile)
	m.cpu = append(m.cpu, cpu/float64(conns)/float64(time.Microsecond))
	m.note(h, limit)
	return nil
}

// note notes when the connections of h were closed.
func (m *crowdShare) note(h *herd, limit time.Duration) {
	lastDue := h.asked[len(h.asked)-1].Add(limit)
	var late []float64
	all := 0.0
	for i, asked := range h.asked {
		due, end := asked.Add(limit), h.ends[h.fds[i]]
		if end.IsZero() {
			m.NotClosed++
			end = due.Add(patience)
		} else if end.Before(due) {
			m.Early++
		}
		late = append(late, table.Millis(end.Sub(due)))
		all = max(all, table.Millis(end.Sub(lastDue)))
	}
	m.lateMS, m.allMS = append(m.lateMS, stats.Median(late)), append(m.allMS, all)
}

// A herd is connections that fall silent, which are the first of the load, and active ones,
// which are the rest.
type herd struct {
	*epollLoad
	asked []time.Time // when the silent ones made their request
	left  int         // silent ones that are not closed
	ends  []time.Time // by descriptor, when a silent one was closed
	sent  []time.Time // by descriptor, when an active one made its request; zero of silent ones
	next  int         // index of the active one whose turn it is
}

// gatherHerd connects a herd.
func gatherHerd(kind, address string, silent int) (*herd, error) {
	l, asked, err := openLoad(kind, address, silent)
	if err != nil {
		return nil, err
	}
	if err := l.open(active); err != nil {
		l.close()
		return nil, err
	}
	h := &herd{epollLoad: l, left: silent, asked: asked}
	h.ends, h.sent = make([]time.Time, len(l.due)), make([]time.Time, len(l.due))
	for _, fd := range l.fds[:silent] {
		l.due[fd] = 1 << 30 // a ping is no fault
	}
	for _, fd := range l.fds[silent:] {
		h.sent[fd] = time.Now()
	}
	return h, nil
}

// watch keeps the active connections active, until a time or until all silent ones are
// closed. It returns how many requests it has made, and adds to answers how long the
// answers took.
func (h *herd) watch(until time.Time, answers *stats.Spread) (requests int, err error) {
	const gap = time.Millisecond // between two messages of all active connections
	outstanding := 0
	hear := func(fd int32) error {
		if h.sent[fd].IsZero() {
			return h.hearSilent(fd)
		}
		if err := h.receive(fd); err != nil || h.due[fd] > 0 {
			return err
		}
		outstanding--
		if answers != nil {
			answers.Add(time.Since(h.sent[fd]))
		}
		return nil
	}
	begun := time.Now()
	for turns, now := 0, begun; h.left > 0 && now.Before(until); now = time.Now() {
		for ; turns < int(now.Sub(begun)/gap); turns++ {
			fd := h.fds[len(h.asked)+h.next]
			h.next = (h.next + 1) % active
			if h.due[fd] > 0 {
				continue // it still waits
			}
			h.sent[fd] = time.Now()
			if err := h.send(int32(fd)); err != nil {
				return requests, err
			}
			requests++
			outstanding++
		}
		if _, err := h.poll(gap, hear); err != nil {
			return requests, err
		}
	}
	for outstanding > 0 {
		events, err := h.poll(patience, hear)
		if err == nil && events == 0 {
			err = fmt.Errorf("an active connection had no answer for %v", patience)
		}
		if err != nil {
			return requests, err
		}
	}
	return requests, nil
}

// hearSilent notes whether the server has closed a silent connection.
func (h *herd) hearSilent(fd int32) error {
	err := h.receive(fd)
	if err == nil {
		err = h.receive(fd) // the end may have come with a ping
	}
	if !errors.Is(err, errClosed) {
		return err
	}
	if h.ends[fd].IsZero() { // there may be a second event when the server's end is given up
		h.ends[fd] = time.Now()
		h.left--
	}
	return nil
}
