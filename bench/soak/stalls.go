package main

import (
	"context"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
)

// Stalls are the times in which this process did not get to run. Servers and
// clients alike stood still then, so lateness by a stall is not a fault.
type stalls struct {
	mu      sync.Mutex
	all     []span    // the latest ones, in order
	last    time.Time // when this process was last seen to run
	longest time.Duration
	sum     time.Duration
}

const (
	stallStep  = 10 * time.Millisecond
	stallLeast = 30 * time.Millisecond // shorter ones are usual
	maxStalls  = 10_000

	// stallWindow is how long before an end stalls may have caused it: no limit is longer, and what
	// a slow reader is granted lasts about as long.
	stallWindow = 4 * limit
)

// newStalls has room for all, so that the heap does not grow with them.
func newStalls() stalls { return stalls{all: make([]span, 0, maxStalls)} }

// watch notes stalls until ctx ends.
func (s *stalls) watch(ctx context.Context) {
	for last := time.Now(); program.Sleep(ctx, stallStep); {
		now := time.Now()
		if isStall(last, now) {
			s.add(span{last, now})
		}
		last = now
		s.mu.Lock()
		s.last = now
		s.mu.Unlock()
	}
}

func isStall(from, to time.Time) bool { return to.Sub(from) >= stallLeast+stallStep }

func (s *stalls) add(one span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == maxStalls {
		s.all = append(s.all[:0], s.all[maxStalls/2:]...)
	}
	s.all = append(s.all, one)
	d := one.to.Sub(one.from)
	s.sum += d
	s.longest = max(s.longest, d)
}

// within returns how much was lost in stalls that ended after one moment and began
// before another.
func (s *stalls) within(from, to time.Time) (lost time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The caller may run before watch does after a stall, so that it is not noted yet.
	if !s.last.IsZero() && isStall(s.last, to) {
		lost = to.Sub(s.last)
	}
	for i := len(s.all) - 1; i >= 0 && s.all[i].to.After(from); i-- {
		if s.all[i].from.Before(to) {
			lost += s.all[i].to.Sub(s.all[i].from)
		}
	}
	return lost
}

// total returns the longest stall since the last call, and the sum of all since
// the beginning.
func (s *stalls) total() (longest, sum time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	longest, s.longest = s.longest, 0
	return longest, s.sum
}

// Terms are what a server is granted.
type terms struct {
	grace  time.Duration // the -slack
	stalls *stalls
}

// slack is how late something may come that is about a time: after a stall there
// is as much to catch up on as it was long.
func (t terms) slack(from, to time.Time) time.Duration {
	return t.grace + 2*t.stalls.within(from, to)
}
