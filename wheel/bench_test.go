package wheel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// With a tick of 10 ms, timeouts are one to two minutes.
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

func BenchmarkMoveRandom(b *testing.B) {
	for _, n := range []int{1_000, 1_000_000, 10_000_000} {
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
