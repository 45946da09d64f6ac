//go:build !unix

package usage

import "math"

// Descriptors returns how many descriptors this process may have: not known here.
func Descriptors() uint64 { return math.MaxUint64 }
