package callbacks

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestGuard has callbacks panic. Each is counted, and the log is limited.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := Runner{Logger: slog.New(slog.NewJSONHandler(&log, nil))}
		ran := 0
		for range LoggedASecond + 5 {
			r.Guard("OnPass", func() { ran++; panic("no reason") })
		}
		time.Sleep(time.Second)
		r.Guard("OnEnd", func() { ran++; panic("another") })
		r.Guard("OnEnd", func() { ran++ })
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if r.Panics() != LoggedASecond+6 || ran != LoggedASecond+7 || len(lines) != LoggedASecond+1 {
			t.Errorf("%d callbacks ran, %d panicked, %d are logged", ran, r.Panics(), len(lines))
		}
		for _, want := range []string{`"callback":"OnPass"`, `"panic":"no reason"`, `"left_out":0`, "TestGuard"} {
			if !strings.Contains(lines[0], want) {
				t.Errorf("no %s in %s", want, lines[0])
			}
		}
		if last := lines[LoggedASecond]; !strings.Contains(last, `"callback":"OnEnd"`) || !strings.Contains(last, `"left_out":5`) {
			t.Error(last)
		}
	})
}

// TestRunning waits for goroutines that end in different ways.
func TestRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Running
		patience, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if left := r.Await(patience); left != 0 {
			t.Errorf("%d are left of none", left)
		}
		for range 2 {
			begun, times := time.Now(), 0
			r.Begin()
			go func() {
				defer r.End()
				time.Sleep(time.Second)
			}()
			r.Begin()
			go r.Run(func() {
				time.Sleep(2 * time.Second)
				if times++; times < 3 {
					runtime.Goexit()
				}
			})
			if n := r.Count(); n != 2 {
				t.Errorf("%d are running", n)
			}
			if left := r.Await(patience); left != 0 || times != 3 || time.Since(begun) != 6*time.Second {
				t.Errorf("after %v: %d are left, and %d calls were made", time.Since(begun), left, times)
			}
		}
		r.Begin()
		if left := r.Await(patience); left != 1 {
			t.Errorf("%d are left of 1", left)
		}
		r.End()
	})
}
