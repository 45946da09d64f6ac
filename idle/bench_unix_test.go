//go:build unix

package idle

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// BenchmarkEvict tracks connections in a tracker that is full of idle ones, so that each
// evicts another. cpu-ns/op is what that takes in all, walks and passes included. It
// sleeps while all connections are within the grace, which ns/op counts.
func BenchmarkEvict(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t, _ := benchTracker(b, Policy{IdleTimeout: time.Hour}, n)
			check(b, t.SetCapacity(Capacity{MaxConns: n, MinIdle: time.Millisecond}))
			time.Sleep(200 * time.Millisecond) // more than the grace
			spare, hooks := []idleOwner(nil), plainHooks()
			before := cpuTime(b)
			b.ReportAllocs()
			for b.Loop() {
				if len(spare) == 0 {
					spare = make([]idleOwner, 1<<14)
				}
				c := &spare[0]
				spare = spare[1:]
				for err := t.Track(&c.Conn, c, hooks); err != nil; err = t.Track(&c.Conn, c, hooks) {
					if !errors.Is(err, ErrFull) {
						b.Fatal(err)
					}
					time.Sleep(time.Millisecond)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			if st := t.Stats(); st.Live > uint64(n+n/10+100) {
				b.Errorf("%+v", st)
			}
		})
	}
}

// cpuTime returns the CPU time of the process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkWakeUp is what the driver costs with each tick while the clock runs:
// cpu-ns/tick. An operation is 50 ticks.
func BenchmarkWakeUp(b *testing.B) {
	t := newTracker(b, Policy{IdleTimeout: time.Hour}, &Options{Tick: time.Millisecond})
	t.clock.Tune(clock.Tuning{Each: never / 2}) // no tick is quiet
	t.clock.Read()                              // wakes it
	before, begun := cpuTime(b), t.clock.Now()
	for b.Loop() {
		time.Sleep(50 * time.Millisecond)
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(t.clock.Now()-begun), "cpu-ns/tick")
}
