package spread

import "github.com/idlewheel/idlewheel/bench/internal/stats"

// A Summary is what is reported of a Spread, in ms.
type Summary struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Summary returns what is reported of s.
func (s *Spread) Summary() Summary {
	return Summary{stats.Millis(s.At(50)), stats.Millis(s.At(99)), stats.Millis(s.Most())}
}
