//go:build !idletrace

// Package words has the atomic types of a connection's words. They are those of sync/atomic.
// With the build tag idletrace they record each access to a word that a [Log] watches, and
// are slower. docs/correctness.md says what that is for.
package words

import "sync/atomic"

type (
	Uint32         = atomic.Uint32
	Uint64         = atomic.Uint64
	Pointer[T any] = atomic.Pointer[T]
)
