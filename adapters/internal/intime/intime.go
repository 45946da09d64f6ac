// Package intime helps to test clients that have to act in time, on machines that
// may be too busy for that.
package intime

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Stalled returns for how long in total this process has been kept from running
// since Stalled was first called. A client that is late by no more than that is
// late because of the machine, not because of the server.
func Stalled() time.Duration { return time.Duration(watch().Load()) }

var watch = sync.OnceValue(func() *atomic.Int64 {
	sum := new(atomic.Int64)
	go func() {
		const beat = 5 * time.Millisecond
		for last := time.Now(); ; last = time.Now() {
			time.Sleep(beat)
			if late := time.Since(last) - beat; late > 2*beat {
				sum.Add(int64(late))
			}
		}
	}()
	return sum
})

// A T is a testing.TB for tests whose clients have to be in time. It reports a
// failure unless the machine has stalled for longer than slack since Of was
// called. In that case the failure is logged as inconclusive instead.
type T struct {
	testing.TB
	before, slack time.Duration
}

// Of returns t for clients that can be late by up to slack.
func Of(t testing.TB, slack time.Duration) T {
	return T{t, Stalled(), slack}
}

// excused returns for how long the machine has stalled if that is more than the
// slack, and 0 otherwise.
func (t T) excused() time.Duration {
	time.Sleep(20 * time.Millisecond) // a stall that has just ended may not have been recorded yet
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
	if d := t.excused(); d > 0 {
		t.excuse(d, fmt.Sprintf(format, args...))
		return
	}
	t.TB.Errorf(format, args...)
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
	if d := t.excused(); d > 0 {
		t.excuse(d, fmt.Sprintf(format, args...))
		t.SkipNow()
	}
	t.TB.Fatalf(format, args...)
}

func (t T) Fatal(args ...any) {
	t.Helper()
	if d := t.excused(); d > 0 {
		t.excuse(d, fmt.Sprint(args...))
		t.SkipNow()
	}
	t.TB.Fatal(args...)
}
