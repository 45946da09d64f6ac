package wheel

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// The benchmarks come in pairs: the wheel, and time.Timer.Reset on the same
// number of timers in the same run. With a tick of 10 ms, timeouts are one to
// two minutes.

const benchTimeout = 6000

// populate returns a wheel with n pending tasks spread over a minute.
func populate(n int) (*Wheel, []task) {
	w := &Wheel{}
	tasks := make([]task, n)
	for i := range tasks {
		w.Schedule(&tasks[i].timer, benchTimeout+rand.Uint64N(benchTimeout))
	}
	return w, tasks
}

// order returns n random indices below size, so that drawing them costs the
// loop one sequential read.
func order(size int) []uint32 {
	picks := make([]uint32, 1<<20)
	for i := range picks {
		picks[i] = uint32(rand.IntN(size))
	}
	return picks
}

func BenchmarkArmCancel(b *testing.B) {
	w, _ := populate(1000)
	var k task
	now := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		now++
		w.Schedule(&k.timer, benchTimeout+now&1023)
		w.Cancel(&k.timer)
	}
}

func BenchmarkMoveHot(b *testing.B) {
	w, tasks := populate(1000)
	now := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		now++
		w.Schedule(&tasks[0].timer, benchTimeout+now&1023)
	}
}

func BenchmarkResetHotTimeTimer(b *testing.B) {
	timers := runtimeTimers(1000)
	defer stopAll(timers)
	b.ReportAllocs()
	for b.Loop() {
		timers[0].Reset(time.Minute)
	}
}

func BenchmarkMoveRandom(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w, tasks := populate(n)
			picks := order(n)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				w.Schedule(&tasks[picks[i&(len(picks)-1)]].timer, benchTimeout+uint64(i)&1023)
			}
		})
	}
}

func BenchmarkResetRandomTimeTimer(b *testing.B) {
	for _, n := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			timers := runtimeTimers(n)
			defer stopAll(timers)
			picks := order(n)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				timers[picks[i&(len(picks)-1)]].Reset(time.Minute)
			}
		})
	}
}

// BenchmarkSilence is the cost of an Advance by one tick if a million timers are
// pending and all of them are far away.
func BenchmarkSilence(b *testing.B) {
	w := &Wheel{}
	tasks := make([]task, 1_000_000)
	for i := range tasks {
		w.Schedule(&tasks[i].timer, 1<<40)
	}
	now := uint64(0)
	for b.Loop() {
		now++
		w.Advance(now)
		if w.Pop() != nil {
			b.Fatal("a timer came up")
		}
	}
}

func runtimeTimers(n int) []*time.Timer {
	timers := make([]*time.Timer, n)
	for i := range timers {
		timers[i] = time.AfterFunc(time.Minute+time.Duration(rand.Int64N(int64(time.Minute))), func() {})
	}
	return timers
}

func stopAll(timers []*time.Timer) {
	for _, t := range timers {
		t.Stop()
	}
}
