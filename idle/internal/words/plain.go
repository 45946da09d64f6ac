//go:build !idletrace

// Package words has the atomic types of a connection's words. They are those of sync/atomic.
// With the build tag idletrace they record each access to a word that a [Log] watches, and
// are slower. docs/correctness.md says what that is for.
package words

import (
	"sync/atomic"
	"unsafe"
)

type (
	Uint32         = atomic.Uint32
	Int64          = atomic.Int64
	Pointer[T any] = atomic.Pointer[T]
)

// SetUint32 stores v in a word that nobody else can see yet.
func SetUint32(w *Uint32, v uint32) { *(*uint32)(unsafe.Pointer(w)) = v }

// SetInt64 stores v in a word that nobody else can see yet.
func SetInt64(w *Int64, v int64) { *(*int64)(unsafe.Pointer(w)) = v }

// SetPointer stores v in a word that nobody else can see yet.
func SetPointer[T any](w *Pointer[T], v *T) { *(**T)(unsafe.Pointer(w)) = v }
