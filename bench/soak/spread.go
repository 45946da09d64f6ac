package main

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A spread is how a duration is distributed, to a thousandth of its value. It
// may be used by any goroutine.
type spread struct {
	mu   sync.Mutex
	hist *hdrhistogram.Histogram
	max  time.Duration // exactly
}

const longestSpread = 24 * time.Hour

func newSpread() *spread {
	return &spread{hist: hdrhistogram.New(1, int64(longestSpread), 3)}
}

func (s *spread) add(d time.Duration) {
	d = min(d, longestSpread)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.max = max(s.max, d)
	_ = s.hist.RecordValue(int64(d)) // fails only for what is out of range
}

// at returns the value that the given percentage does not exceed.
func (s *spread) at(percent float64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(s.max, time.Duration(s.hist.ValueAtPercentile(percent)))
}

// most returns the greatest value.
func (s *spread) most() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.max
}

// count returns how many there were.
func (s *spread) count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hist.TotalCount()
}
