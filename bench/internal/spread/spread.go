// Package spread keeps how durations are distributed.
package spread

import (
	"math/bits"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/table"
)

// A Spread is how a duration is distributed, to a thousandth of its value. It
// may be used by any goroutine.
//
// It is a histogram: durations of the same magnitude, which is that of the
// highest bit, share 1024 buckets of the same width.
type Spread struct {
	mu     sync.Mutex
	counts []int64 // by bucket
	total  int64
	max    time.Duration // exactly
}

const (
	longest      = 24 * time.Hour
	mantissaBits = 10
)

// New returns a Spread of nothing yet.
func New() *Spread { return &Spread{counts: make([]int64, bucket(longest)+1)} }

// bucket returns the index of the bucket of d.
func bucket(d time.Duration) int {
	shift := max(bits.Len64(uint64(d))-mantissaBits-1, 0)
	return shift<<mantissaBits + int(d>>shift)
}

// top returns the greatest duration in a bucket.
func top(bucket int) time.Duration {
	shift := max(bucket>>mantissaBits-1, 0)
	return time.Duration(bucket-shift<<mantissaBits+1)<<shift - 1
}

// Add counts a duration. Those over a day count as one, and negative ones as zero.
func (s *Spread) Add(d time.Duration) {
	d = max(0, min(d, longest))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.max = max(s.max, d)
	s.counts[bucket(d)]++
	s.total++
}

// At returns the value that the given percentage does not exceed.
func (s *Spread) At(percent float64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := max(int64(percent/100*float64(s.total)+0.5), 1)
	for i, n := range s.counts {
		if left -= n; left <= 0 {
			return min(s.max, top(i))
		}
	}
	return 0
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
	return s.total
}

// A Summary is what is reported of a Spread, in ms.
type Summary struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Summary returns what is reported of s.
func (s *Spread) Summary() Summary {
	return Summary{table.Millis(s.At(50)), table.Millis(s.At(99)), table.Millis(s.Most())}
}
