// Package intime is for tests whose clients have to be in time, on machines that
// may be too busy for that.
package intime

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Stalled returns for how long in all this process has been kept from running,
// since it was first called: the clients too, which then come too late by no fault
// of the server.
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

// A T is the T of a test whose clients have to be in time, with an amount
// of slack. What fails is held against the server unless the machine was stalled
// for longer than that; then it is inconclusive.
type T struct {
	testing.TB
	before, slack time.Duration
}

// Of returns t for clients that have so much slack.
func Of(t testing.TB, slack time.Duration) T {
	return T{t, Stalled(), slack}
}

func (t T) excused() time.Duration {
	time.Sleep(20 * time.Millisecond) // a stall that is just over may not have been noted
	if d := Stalled() - t.before; d > t.slack {
		return d
	}
	return 0
}

// excuse notes why a failure is none. Handlers may do so when their test is over,
// at which Log panics.
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
