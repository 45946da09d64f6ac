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
}

const longestSpread = time.Hour

func newSpread() *spread {
	return &spread{hist: hdrhistogram.New(1, int64(longestSpread), 3)}
}

func (s *spread) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.hist.RecordValue(int64(min(d, longestSpread))) // fails only for what is out of range
}

// latency returns what is reported of s.
func (s *spread) latency() latency {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := func(percent float64) float64 { return millis(time.Duration(s.hist.ValueAtPercentile(percent))) }
	return latency{P50: at(50), P99: at(99), Max: millis(time.Duration(s.hist.Max()))}
}
