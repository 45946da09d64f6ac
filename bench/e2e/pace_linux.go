package main

import (
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"
)

// A pacedLoad sends messages at an even pace, over one connection after another.
//
// It sleeps between messages, and takes answers when it sends the next message. It
// does not wait for them, because then the server would spend CPU time on waking it.
type pacedLoad struct {
	*epollLoad
	gap  time.Duration // between messages
	next int           // index of the connection whose turn it is
}

// newPacedLoad makes a load of perS messages a second. It exchanges a message over each
// connection, so that none of them is new to the server.
func newPacedLoad(l *epollLoad, perS int) (*pacedLoad, error) {
	// The server has accepted the connections one after the other, so their state may lie in
	// its memory in that order. Messages must not come in the same order.
	rand.Shuffle(len(l.fds), func(i, j int) { l.fds[i], l.fds[j] = l.fds[j], l.fds[i] })
	p := &pacedLoad{epollLoad: l, gap: time.Second / time.Duration(perS)}
	_, err := p.exchange()
	return p, err
}

// run has no warm-up: the server is to be as it is when little happens.
func (p *pacedLoad) run(d time.Duration) (turn, error) {
	begun := time.Now()
	outstanding, ops := 0, max(int(d/p.gap), 1)
	for i := range ops {
		sleepUntil(begun.Add(time.Duration(i) * p.gap))
		_, complete, err := p.collect(0, nothing)
		outstanding -= complete
		fd := p.fds[p.next]
		for err == nil && p.due[fd] > 0 { // the server is a whole turn of the connections behind
			complete, err = p.wait(nothing)
			outstanding -= complete
		}
		if err == nil {
			err = p.send(int32(fd))
		}
		if err != nil {
			return turn{}, err
		}
		outstanding++
		p.next = (p.next + 1) % len(p.fds)
	}
	sleepUntil(begun.Add(d)) // what the server does after the last message counts as well
	t := turn{opsPerS: float64(ops) / time.Since(begun).Seconds(), ops: ops}
	return t, p.settle(outstanding)
}

// sleepUntil sleeps more exactly than time.Sleep, which counts in ms while nothing
// else runs.
func sleepUntil(t time.Time) {
	for d := time.Until(t); d > 0; d = time.Until(t) {
		ts := unix.NsecToTimespec(int64(d))
		unix.Nanosleep(&ts, nil) // if a signal ends it, it sleeps again
	}
}
