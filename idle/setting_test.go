package idle

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSetting: where an adapter has a name for a limit, errors, ends and the tracker have it.
func TestSetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []End
		tracker, err := New(Policy{Name: "web", IdleTimeout: time.Second}, &Options{
			OnEnds: func(ends []End) { told = append(told, ends...) },
			Setting: func(phase string, r Reason) string {
				if phase == "web" && r == ReasonIdle {
					return "KeepAlive"
				}
				return ""
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		var asked, expired *TimeoutError
		hooks := &Hooks{
			OnTimeout: func(_ any, err *TimeoutError) bool { asked = err; return false },
			Expire:    func(_ any, err *TimeoutError) { expired = err },
		}
		if err := tracker.Track(new(Conn), t, hooks); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for _, err := range []*TimeoutError{asked, expired} {
			if err == nil || err.Setting != "KeepAlive" || !strings.Contains(err.Error(), "web: KeepAlive of 1s passed") {
				t.Errorf("the error is %v", err)
			}
		}
		for _, test := range []struct {
			phase  string
			reason Reason
			want   string
		}{{"web", ReasonIdle, "KeepAlive"}, {"web", ReasonRead, "ReadTimeout"}, {"chat", ReasonIdle, "IdleTimeout"}, {"web", ReasonShed, ""}, {"web", 0, ""}} {
			if got := tracker.Setting(test.phase, test.reason); got != test.want {
				t.Errorf("%v in %s is %q, want %q", test.reason, test.phase, got, test.want)
			}
		}
		tracker.Close()
		if len(told) != 1 || told[0].Setting != "KeepAlive" {
			t.Errorf("ends: %+v", told)
		}
	})
}

// TestSettingPanics: a panic of Options.Setting is counted, as those of callbacks are, and the
// name is that of the field.
func TestSettingPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := New(Policy{IdleTimeout: time.Second}, &Options{
			Setting: func(string, Reason) string { panic("no name") },
			Logger:  slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		var expired *TimeoutError
		if err := tracker.Track(new(Conn), t, &Hooks{Expire: func(_ any, err *TimeoutError) { expired = err }}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if expired == nil || expired.Setting != "IdleTimeout" || tracker.Stats().Panics == 0 {
			t.Errorf("the error is %v, and %d panics were counted", expired, tracker.Stats().Panics)
		}
	})
}
