package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
)

// weigh measures how much memory connections take of the server's process.
func (m *member) weigh(kind string, core int, cfg config, conns int) error {
	return withCrowd(order{kind, m.name, noTimeout}, core, cfg, func(s *server.Child, c *connections) error {
		var before, after uint64
		if err := s.Ask(&before); err != nil {
			return err
		}
		l, err := connectWaiting(c, conns)
		if err != nil {
			return err
		}
		defer l.close()
		err = s.Ask(&after)
		m.bytes = append(m.bytes, (float64(after)-float64(before))/float64(conns))
		return err
	})
}

// connectWaiting opens connections and makes a request on each, or one on each stream.
func connectWaiting(c *connections, conns int) (load, error) {
	if !plain(c.kind) {
		l, err := connectTalks(c, conns)
		if err != nil {
			return nil, err
		}
		if err := l.once(); err != nil {
			l.close()
			return nil, err
		}
		return l, nil
	}
	l, err := newEpollLoad(c)
	if err != nil {
		return nil, err
	}
	if err = l.open(conns); err == nil {
		_, err = l.exchange()
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// silence has connections go silent together, and waits until they are closed.
func (m *member) silence(kind string, core int, cfg config, conns int, limit time.Duration) error {
	return withCrowd(order{kind, m.name, limit}, core, cfg, func(s *server.Child, c *connections) error {
		h, err := gatherHerd(c, conns)
		for try := 1; err != nil && try < crowdTries; try++ { // on a busy machine some may be silent for too long before the last one has connected
			h, err = gatherHerd(c, conns)
		}
		if err != nil {
			return fmt.Errorf("%d times not all were connected and served within %v; the machine may be too busy: %w", crowdTries, limit, err)
		}
		defer h.close()
		var calmly int
		calm, err := usage.During(s.Pid(), func() (err error) {
			calmly, err = h.watch(h.asked[0].Add(limit), nil)
			return err
		})
		if err != nil {
			return err
		}
		var meanwhile int
		due := h.asked[conns-1].Add(limit) // the last of them, no sooner
		herd, err := usage.During(s.Pid(), func() (err error) {
			meanwhile, err = h.watch(due.Add(patience), m.active)
			return err
		})
		if err != nil {
			return err
		}
		// What the answers to the active ones have cost is not for the herd.
		cpu := float64(herd.CPU) - float64(calm.CPU)/float64(max(calmly, 1))*float64(meanwhile)
		m.cpu = append(m.cpu, cpu/float64(conns)/float64(time.Microsecond))
		m.note(h, limit)
		return nil
	})
}

// note notes when the connections of h were closed.
func (m *member) note(h *herd, limit time.Duration) {
	var late []float64
	var last time.Time
	for i, asked := range h.asked {
		due, end := asked.Add(limit), h.ends[h.fds[i]]
		if end.IsZero() {
			m.notClosed++
			end = due.Add(patience)
		} else if end.Before(due) {
			m.early++
		}
		late = append(late, table.Millis(end.Sub(due)))
		if end.After(last) {
			last = end
		}
	}
	m.lateMS = append(m.lateMS, stats.Median(late))
	m.allMS = append(m.allMS, max(0, table.Millis(last.Sub(slices.MaxFunc(h.asked, time.Time.Compare).Add(limit)))))
}

// withCrowd runs a server, and then does something with it.
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
	return do(s, c)
}

// A herd is connections that go silent, which are the first of the load, and active
// ones, which are the rest.
type herd struct {
	*epollLoad
	asked []time.Time // when the silent ones made their request
	left  int         // silent ones that are not closed
	ends  []time.Time // by descriptor, when a silent one was closed

	sent []time.Time // by descriptor, when an active one made its request; zero of silent ones
	next int         // index of the active one whose turn it is
}

// activeGap is the time between two messages of all active connections.
const activeGap = time.Millisecond

// gatherHerd connects a herd.
func gatherHerd(c *connections, silent int) (*herd, error) {
	l, err := newEpollLoad(c)
	if err != nil {
		return nil, err
	}
	h := &herd{epollLoad: l, left: silent}
	if err = l.open(silent); err == nil {
		if h.asked, err = l.exchange(); err == nil {
			err = l.open(active)
		}
	}
	if err != nil {
		l.close()
		return nil, err
	}
	h.ends, h.sent = make([]time.Time, len(l.due)), make([]time.Time, len(l.due))
	for _, fd := range l.fds[:silent] {
		l.due[fd] = 1 << 30 // a ping is no fault
	}
	for _, fd := range l.fds[silent:] {
		h.sent[fd] = time.Now()
	}
	return h, nil
}

// watch keeps the active connections active, until a time or until all silent ones
// are closed. It returns how many requests it has made, and adds to answers how long
// the answers took.
func (h *herd) watch(until time.Time, answers *spread.Spread) (requests int, err error) {
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
		for ; turns < int(now.Sub(begun)/activeGap); turns++ {
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
		if _, err := h.poll(activeGap, hear); err != nil {
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
