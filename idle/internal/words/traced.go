//go:build idletrace

package words

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A Log is the accesses to the words of a connection, in the order in which they happened.
type Log struct {
	mu       sync.Mutex // held during each access
	words    []unsafe.Pointer
	accesses []Access

	// Before, if not nil, is called before each access, by the goroutine that makes it. It may
	// access the words itself. Set it before the words are used.
	Before func(word int, by *Stack)
}

// An Access is a load, a store or a swap of a word. A swap that fails is a load.
type Access struct {
	Word      int // as an index of what Watch was given
	Wrote     bool
	Was, Is   uint64 // the value before and after
	Goroutine uint64
	Stack     *Stack
}

// A Stack is the functions that were running, the innermost first. Accesses that come from the
// same place have the same Stack.
type Stack struct{ Frames []runtime.Frame }

// A watch is a word of a Log.
type watch struct {
	log  *Log
	word int
}

// watched has a *watch for the address of each word.
var watched sync.Map

// Unwatched, if set, is called before each access to a word that isn't watched, by the goroutine
// that makes it. It may call Watch, and then the access is recorded.
var Unwatched atomic.Pointer[func(at unsafe.Pointer, by *Stack)]

// Watch records all accesses to words until Close.
func Watch(words ...unsafe.Pointer) *Log {
	l := &Log{words: words}
	for i, w := range words {
		watched.Store(w, &watch{l, i})
	}
	return l
}

// Close ends the recording, and returns it.
func (l *Log) Close() []Access {
	for _, w := range l.words {
		watched.Delete(w)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accesses
}

// access has do access the word at the given address, and return its value before and after,
// and whether it was written.
func access(at unsafe.Pointer, do func() (was, is uint64, wrote bool)) {
	of, ok := watched.Load(at)
	if unwatched := Unwatched.Load(); unwatched != nil && !ok {
		(*unwatched)(at, stack())
		of, ok = watched.Load(at)
	}
	if !ok {
		do()
		return
	}
	w := of.(*watch)
	a := Access{Word: w.word, Goroutine: goroutine(), Stack: stack()}
	if w.log.Before != nil {
		w.log.Before(a.Word, a.Stack)
	}
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	a.Was, a.Is, a.Wrote = do()
	w.log.accesses = append(w.log.accesses, a)
}

const depth = 48

// stacks has the *Stack of each list of program counters.
var stacks struct {
	sync.Mutex
	of map[[depth]uintptr]*Stack
}

// stack returns who accesses a word.
func stack() *Stack {
	var pcs [depth]uintptr
	n := runtime.Callers(4, pcs[:])
	stacks.Lock()
	defer stacks.Unlock()
	if s := stacks.of[pcs]; s != nil {
		return s
	}
	s := &Stack{}
	for frames, more := runtime.CallersFrames(pcs[:n]), true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		s.Frames = append(s.Frames, f)
	}
	if stacks.of == nil {
		stacks.of = map[[depth]uintptr]*Stack{}
	}
	stacks.of[pcs] = s
	return s
}

// A Uint32 is an atomic.Uint32 that can be watched.
type Uint32 struct{ v atomic.Uint32 }

func (u *Uint32) Load() (v uint32) {
	access(unsafe.Pointer(u), func() (was, is uint64, wrote bool) {
		v = u.v.Load()
		return uint64(v), uint64(v), false
	})
	return v
}

func (u *Uint32) Store(v uint32) {
	access(unsafe.Pointer(u), func() (was, is uint64, wrote bool) {
		return uint64(u.v.Swap(v)), uint64(v), true
	})
}

func (u *Uint32) CompareAndSwap(old, new uint32) (swapped bool) {
	access(unsafe.Pointer(u), func() (was, is uint64, wrote bool) {
		if swapped = u.v.CompareAndSwap(old, new); swapped {
			return uint64(old), uint64(new), true
		}
		v := uint64(u.v.Load())
		return v, v, false
	})
	return swapped
}

func (u *Uint32) And(mask uint32) (old uint32) {
	access(unsafe.Pointer(u), func() (was, is uint64, wrote bool) {
		old = u.v.And(mask)
		return uint64(old), uint64(old & mask), true
	})
	return old
}

func (u *Uint32) Or(mask uint32) (old uint32) {
	access(unsafe.Pointer(u), func() (was, is uint64, wrote bool) {
		old = u.v.Or(mask)
		return uint64(old), uint64(old | mask), true
	})
	return old
}

func (u *Uint32) Add(d uint32) (v uint32) {
	access(unsafe.Pointer(u), func() (was, is uint64, wrote bool) {
		v = u.v.Add(d)
		return uint64(v - d), uint64(v), true
	})
	return v
}

// An Int64 is an atomic.Int64 that can be watched.
type Int64 struct{ v atomic.Int64 }

func (i *Int64) Load() (v int64) {
	access(unsafe.Pointer(i), func() (was, is uint64, wrote bool) {
		v = i.v.Load()
		return uint64(v), uint64(v), false
	})
	return v
}

func (i *Int64) Store(v int64) {
	access(unsafe.Pointer(i), func() (was, is uint64, wrote bool) { return uint64(i.v.Swap(v)), uint64(v), true })
}

func (i *Int64) CompareAndSwap(old, new int64) (swapped bool) {
	access(unsafe.Pointer(i), func() (was, is uint64, wrote bool) {
		if swapped = i.v.CompareAndSwap(old, new); swapped {
			return uint64(old), uint64(new), true
		}
		v := uint64(i.v.Load())
		return v, v, false
	})
	return swapped
}

// A Pointer is an atomic.Pointer that can be watched.
type Pointer[T any] struct{ v atomic.Pointer[T] }

func (p *Pointer[T]) Load() (v *T) {
	access(unsafe.Pointer(p), func() (was, is uint64, wrote bool) {
		v = p.v.Load()
		return address(v), address(v), false
	})
	return v
}

func (p *Pointer[T]) Store(v *T) {
	access(unsafe.Pointer(p), func() (was, is uint64, wrote bool) {
		return address(p.v.Swap(v)), address(v), true
	})
}

func (p *Pointer[T]) CompareAndSwap(old, new *T) (swapped bool) {
	access(unsafe.Pointer(p), func() (was, is uint64, wrote bool) {
		if swapped = p.v.CompareAndSwap(old, new); swapped {
			return address(old), address(new), true
		}
		v := address(p.v.Load())
		return v, v, false
	})
	return swapped
}

func address[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

// SetUint32, SetInt64 and SetPointer are plain stores without the tag.
func SetUint32(w *Uint32, v uint32) { w.Store(v) }

func SetInt64(w *Int64, v int64) { w.Store(v) }

func SetPointer[T any](w *Pointer[T], v *T) { w.Store(v) }
