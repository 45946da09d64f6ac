package table

import (
	"math"
	"time"
)

// Round rounds to so many digits after the point, for JSON.
func Round(v float64, digits int) float64 {
	unit := math.Pow10(digits)
	return math.Round(v*unit) / unit
}

// Millis returns a duration in ms, to a microsecond.
func Millis(d time.Duration) float64 { return Round(float64(d)/float64(time.Millisecond), 3) }
