//go:build unix

package idle

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// BenchmarkEvict tracks connections in a tracker that is full of idle ones, so that each
// evicts another. cpu-ns/op is what that takes in all, walks and passes included. It
// sleeps while all connections are within the grace, which ns/op counts.
func BenchmarkEvict(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t, conns := benchTracker(b, Policy{IdleTimeout: time.Hour}, n)
			if err := t.SetCapacity(Capacity{MaxConns: n, MinIdle: time.Millisecond}); err != nil {
				b.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond) // more than the grace
			spare, hooks := make([]idleOwner, n/2), hooksOf(&conns[0])
			before, next := cpuTime(b), 0
			b.ReportAllocs()
			for b.Loop() {
				for tries := 0; ; tries++ {
					i := next % (len(spare) + n)
					c := &conns[max(i-len(spare), 0)]
					if i < len(spare) {
						c = &spare[i]
					}
					err := t.Track(&c.Conn, c, hooks)
					if errors.Is(err, ErrFull) {
						time.Sleep(time.Millisecond)
					} else {
						next++ // of those that were tracked before, a few are not evicted yet
					}
					if err == nil {
						break
					}
					if tries > 10_000_000 {
						b.Fatal(err)
					}
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
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
