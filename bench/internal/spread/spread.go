// Package spread keeps how durations are distributed.
package spread

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Spread is how a duration is distributed, to a thousandth of its value. It
// may be used by any goroutine.
type Spread struct {
	mu   sync.Mutex
	hist *hdrhistogram.Histogram
	max  time.Duration // exactly
}

const longest = 24 * time.Hour

// New returns a Spread of nothing yet.
func New() *Spread {
	return &Spread{hist: hdrhistogram.New(1, int64(longest), 3)}
}

// Add counts a duration. Those over a day count as one.
func (s *Spread) Add(d time.Duration) {
	d = min(d, longest)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.max = max(s.max, d)
	_ = s.hist.RecordValue(int64(d)) // fails only for what is out of range
}

// At returns the value that the given percentage does not exceed.
func (s *Spread) At(percent float64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(s.max, time.Duration(s.hist.ValueAtPercentile(percent)))
}

// Most returns the greatest value.
func (s *Spread) Most() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.max
}

// Count returns how many there were.
func (s *Spread) Count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hist.TotalCount()
}
