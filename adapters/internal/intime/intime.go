// Package intime helps to test clients that have to act in time, on machines that
// may be too busy for that.
package intime

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Stalled returns how long in total goroutines that were ready to run have waited for a processor,
// since Stalled was first called. Waits of up to 10 ms don't count, nor do waits of up to 50 ms of a
// single thread. A client that is late by no more than that is late because of the machine, not
// because of the server.
func Stalled() time.Duration { return time.Duration(watch().Load()) }

var watch = sync.OnceValue(func() *atomic.Int64 {
	sum := new(atomic.Int64)
	go func() {
		const beat, window = 5 * time.Millisecond, 50 * time.Millisecond
		threads, stalled, asked := waits{}, time.Duration(0), time.Now()
		for last := time.Now(); ; last = time.Now() {
			time.Sleep(beat)
			runtime.Gosched() // waits behind the others, as a goroutine whose input has come does
			if late := time.Since(last) - beat; late > 2*beat {
				sum.Add(int64(late))
				stalled += late
			}
			if time.Since(asked) >= window { // the system may let one thread wait while others run
				sum.Add(int64(max(threads.longest(window)-stalled, 0)))
				stalled, asked = 0, time.Now()
			}
		}
	}()
	return sum
})

// waits are the times that each thread of the process has waited for a processor, by its number.
type waits map[string]time.Duration

// longest returns the longest time that a thread has waited since the last call, or 0 if that's no
// more than least or the system doesn't tell. Linux adds a wait when it's over, so a longer one than
// the time since the last call was a single one.
func (w waits) longest(least time.Duration) (longest time.Duration) {
	threads, _ := os.ReadDir("/proc/self/task")
	for _, thread := range threads {
		b, _ := os.ReadFile("/proc/self/task/" + thread.Name() + "/schedstat") // time run, time waited, turns
		var ran, waited time.Duration
		if _, err := fmt.Sscan(string(b), &ran, &waited); err != nil {
			continue
		}
		if before, ok := w[thread.Name()]; ok && waited-before > least {
			longest = max(longest, waited-before)
		}
		w[thread.Name()] = waited
	}
	return longest
}

// A T is a testing.TB for tests whose clients have to be in time. It reports a
// failure unless the machine has stalled for longer than slack since Of was
// called. In that case the failure is logged as inconclusive instead.
type T struct {
	testing.TB
	before, slack time.Duration
}

// Of returns t for clients that can be late by up to slack.
func Of(t testing.TB, slack time.Duration) T { return T{t, Stalled(), slack} }

// excused returns how long the machine stalled, or 0 if that was within the slack.
func (t T) excused() time.Duration {
	time.Sleep(100 * time.Millisecond) // a stall that has just ended may not have been recorded yet
	if d := Stalled() - t.before; d > t.slack {
		return d
	}
	return 0
}

// excuse logs a failure as inconclusive. It ignores the panic of Log when a
// handler calls it after its test has ended.
func (t T) excuse(d time.Duration, what string) {
	t.Helper()
	defer func() { recover() }()
	t.Logf("inconclusive: the machine was stalled for %v\n%s", d, what)
}

func (t T) Errorf(format string, args ...any) {
	t.Helper()
	t.Error(fmt.Sprintf(format, args...))
}

func (t T) Error(args ...any) {
	t.Helper()
	if d := t.excused(); d > 0 {
		t.excuse(d, fmt.Sprint(args...))
		return
	}
	t.TB.Error(args...)
}

func (t T) Fatalf(format string, args ...any) {
	t.Helper()
	t.Fatal(fmt.Sprintf(format, args...))
}

func (t T) Fatal(args ...any) {
	t.Helper()
	if d := t.excused(); d > 0 {
		t.excuse(d, fmt.Sprint(args...))
		t.SkipNow()
	}
	t.TB.Fatal(args...)
}
