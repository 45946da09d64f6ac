package pressure

import (
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// TestHeap has 64 MB of a limit be in use, and then not.
func TestHeap(t *testing.T) {
	was := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(was)
	if got, err := Heap(); err == nil || !strings.Contains(err.Error(), "GOMEMLIMIT") {
		t.Errorf("without a limit: %v, %v", got, err)
	}
	const limit, more = 1 << 30, 64 << 20
	debug.SetMemoryLimit(limit)
	read := func() float64 {
		runtime.GC()
		v, err := Heap()
		if err != nil || v <= 0 || v > 1 {
			t.Fatalf("got %v, %v", v, err)
		}
		return v
	}
	before := read()
	alive := make([]byte, more)
	with := read()
	runtime.KeepAlive(alive)
	after := read()
	if rise := with - before; math.Abs(rise-float64(more)/limit) > 0.02 {
		t.Errorf("%d MB of %d MB are %v", more>>20, limit>>20, rise)
	}
	if fall := with - after; math.Abs(fall-float64(more)/limit) > 0.02 {
		t.Errorf("%d MB less of %d MB are %v", more>>20, limit>>20, fall)
	}
	debug.SetMemoryLimit(1)
	if v := read(); v != 1 {
		t.Errorf("over the limit: %v", v)
	}
}

// TestHeapIsCurrent has memory be taken and released while the runtime sees no reason to
// collect garbage.
func TestHeapIsCurrent(t *testing.T) {
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	limit := int64(256 << 20)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	read := func(old time.Duration) float64 {
		v, err := heap(old)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	before := read(0)
	alive := make([]byte, 150<<20)
	if got := read(time.Hour); got > before+0.1 {
		t.Errorf("%v before a collection", got)
	}
	if got := read(0); got < 0.55 {
		t.Errorf("150 of 256 MB are %v", got)
	}
	runtime.KeepAlive(alive)
	if got := read(0); got > before+0.1 {
		t.Errorf("%v after they were released, %v before", got, before)
	}
	cycles := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	was := cycles()
	if read(0); cycles() != was {
		t.Error("collects garbage though there is little")
	}
}

// TestHeapHasStacks has goroutines with large stacks.
func TestHeapHasStacks(t *testing.T) {
	const limit, goroutines, size = 1 << 30, 64, 1 << 20
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	runtime.GC() // frees the stacks of goroutines that have ended
	before, err := Heap()
	if err != nil {
		t.Fatal(err)
	}
	ready, release := make(chan struct{}), make(chan struct{})
	for range goroutines {
		go func() {
			deep(size)
			ready <- struct{}{}
			<-release
		}()
	}
	for range goroutines {
		<-ready
	}
	with, err := Heap()
	close(release)
	if rise := with - before; err != nil || rise < goroutines*size/2/float64(limit) {
		t.Errorf("%v, then %v with stacks of %d MB; error %v", before, with, goroutines*size>>20, err)
	}
}

// deep uses that much of the stack.
//
//go:noinline
func deep(size int) byte {
	var frame [4096]byte
	if size > len(frame) {
		frame[size%len(frame)] = deep(size - len(frame))
	}
	return frame[0]
}

// TestOfThisProcess calls what depends on the system.
func TestOfThisProcess(t *testing.T) {
	for name, read := range map[string]func() (float64, error){"Descriptors": Descriptors, "Cgroup": Cgroup} {
		v, err := read()
		t.Logf("%s: %v, %v", name, v, err)
		switch {
		case runtime.GOOS != "linux":
			if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), runtime.GOOS) {
				t.Errorf("%s: %v", name, err)
			}
		case name == "Descriptors" && err != nil, err == nil && !(v >= 0 && v <= 1):
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
}
