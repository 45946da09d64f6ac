package spread

import "github.com/idlewheel/idlewheel/bench/internal/table"

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
