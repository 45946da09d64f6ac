package idle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// TestPolicyRefused checks that what makes no sense is refused, by an error
// that names the field and its value.
func TestPolicyRefused(t *testing.T) {
	const ms, year = time.Millisecond, 365 * 24 * time.Hour
	beat := func(h Heartbeat) Policy { return Policy{Heartbeat: h} }
	for _, test := range []struct {
		policy Policy
		want   []string
	}{
		{Policy{IdleTimeout: -1}, []string{"IdleTimeout", "-1ns"}},
		{Policy{ReadTimeout: -time.Second}, []string{"ReadTimeout", "-1s"}},
		{Policy{WriteTimeout: -time.Second}, []string{"WriteTimeout", "-1s"}},
		{Policy{PhaseTimeout: -time.Second}, []string{"PhaseTimeout", "-1s"}},
		{Policy{MaxAge: -time.Second}, []string{"MaxAge", "-1s"}},
		{Policy{MaxAge: time.Second, MaxAgeJitter: -ms}, []string{"MaxAgeJitter", "-1ms"}},
		{Policy{IdleTimeout: ms}, []string{"IdleTimeout", "1ms", "10ms"}},
		{Policy{ReadTimeout: 10*ms - 1}, []string{"ReadTimeout", "9.999999ms", "10ms"}},
		{Policy{IdleTimeout: year}, []string{"IdleTimeout", "8760h"}},
		{Policy{IdleTimeout: time.Second / 2, MaxAge: 20 * 24 * time.Hour, MaxAgeGrace: 20 * 24 * time.Hour}, []string{"MaxAge", "grace", "960h"}},
		{Policy{MaxAgeJitter: time.Second}, []string{"MaxAge is 0", "MaxAgeJitter", "1s"}},
		{Policy{MaxAgeGrace: time.Second}, []string{"MaxAge is 0", "MaxAgeGrace", "1s"}},
		{beat(Heartbeat{Interval: -time.Second, Timeout: time.Second}), []string{"Heartbeat.Interval", "-1s"}},
		{beat(Heartbeat{Interval: time.Second, Timeout: -1}), []string{"Heartbeat.Timeout", "-1ns"}},
		{beat(Heartbeat{Interval: time.Second}), []string{"Heartbeat.Timeout", "0"}},
		{beat(Heartbeat{Timeout: time.Second}), []string{"Heartbeat.Interval is 0", "Timeout:1s"}},
		{beat(Heartbeat{Interval: time.Second, Timeout: time.Second, Jitter: -1}), []string{"Heartbeat.Jitter", "-1ns"}},
		{beat(Heartbeat{Interval: time.Second, Timeout: time.Second, Jitter: 2 * time.Second}), []string{"Heartbeat.Jitter", "2s", "1s"}},
		{beat(Heartbeat{Interval: time.Second, Passive: true, Jitter: time.Second / 2}), []string{"Heartbeat.Jitter", "500ms", "Passive"}},
		{Policy{IdleTimeout: 2 * time.Second, Heartbeat: Heartbeat{Interval: time.Second, Timeout: time.Second}}, []string{"IdleTimeout is 2s", "every 1s", "ExplicitUse"}},
		{beat(Heartbeat{Passive: true}), []string{"Heartbeat.Interval is 0", "Passive:true"}},
		{beat(Heartbeat{Interval: time.Second, Timeout: time.Second, Misses: -1}), []string{"Heartbeat.Misses", "-1"}},
		{beat(Heartbeat{Interval: time.Second, Timeout: time.Second, Misses: 101}), []string{"Heartbeat.Misses", "101"}},
		{beat(Heartbeat{Interval: year / 20, Misses: 100, Passive: true}), []string{"Heartbeat.Misses", "100"}},
		{Policy{MinReadRate: Rate{BytesPerSecond: -5, Grace: time.Second}}, []string{"MinReadRate.BytesPerSecond", "-5"}},
		{Policy{MinReadRate: Rate{BytesPerSecond: 5}}, []string{"MinReadRate.Grace", "0"}},
		{Policy{MinReadRate: Rate{Grace: time.Second}}, []string{"MinReadRate.BytesPerSecond is 0", "1s"}},
		{Policy{MinWriteRate: Rate{BytesPerSecond: 5, Grace: ms}}, []string{"MinWriteRate.Grace", "1ms"}},
		{Policy{}, []string{"no limit", "IdleTimeout", "PhaseTimeout"}},
	} {
		refused(t, fmt.Sprintf("%+v", test.policy), test.policy, nil, test.want)
	}
}

func TestOptionsRefused(t *testing.T) {
	for _, test := range []struct {
		opts Options
		want []string
	}{
		{Options{Tick: -1}, []string{"Options.Tick", "-1ns"}},
		{Options{Tick: time.Millisecond - 1}, []string{"Options.Tick", "999.999µs", "1ms"}},
		{Options{Tick: 1000 * time.Hour}, []string{"Options.Tick", "1000h"}}, // 2²⁸ of them are no time.Duration
		{Options{Shards: -1}, []string{"Options.Shards", "-1"}},
		{Options{Shards: 1 << 20}, []string{"Options.Shards", "1048576"}},
		{Options{Budget: -1}, []string{"Options.Budget", "-1ns"}},
		{Options{Budget: time.Second}, []string{"Options.Budget", "1s", "100ms"}},
	} {
		refused(t, fmt.Sprintf("%+v", test.opts), Policy{IdleTimeout: time.Hour}, &test.opts, test.want)
	}
	h := Heartbeat{Interval: clock.MaxTicks * 10 * time.Second, Misses: 100, Passive: true} // 101 times that are no time.Duration
	refused(t, "overflow", Policy{Heartbeat: h}, &Options{Tick: 10 * time.Second}, []string{"Heartbeat.Misses", "100"})
}

func refused(t *testing.T, name string, p Policy, opts *Options, want []string) {
	t.Helper()
	tr, err := New(p, opts)
	if err == nil {
		t.Errorf("%s is accepted", name)
		tr.Close()
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not mention %q", name, err, w)
		}
	}
}

func TestPolicyAccepted(t *testing.T) {
	for _, p := range []Policy{
		{IdleTimeout: 10 * time.Millisecond},
		{IdleTimeout: clock.MaxTicks * 10 * time.Millisecond},
		{MaxAge: time.Hour, MaxAgeJitter: time.Minute, MaxAgeGrace: time.Second},
		{Heartbeat: Heartbeat{Interval: time.Second, Timeout: time.Minute, Misses: 100}},
		{IdleTimeout: time.Second, Heartbeat: Heartbeat{Interval: time.Second, Timeout: time.Second}},
		{IdleTimeout: time.Hour, Heartbeat: Heartbeat{Interval: time.Second, Timeout: time.Second}, ExplicitUse: true},
		{IdleTimeout: time.Hour, Heartbeat: Heartbeat{Interval: time.Second, Passive: true}},
		{MinReadRate: Rate{1, time.Second}, MinWriteRate: Rate{1 << 30, time.Second}},
		{Name: "handshake", PhaseTimeout: 10 * time.Millisecond, ReadTimeout: time.Second, WriteTimeout: time.Hour},
	} {
		tr := newTracker(t, p, nil)
		if ph, err := tr.Phase(p); err != nil || ph.Policy() != p {
			t.Errorf("Phase(%+v) = %+v, %v", p, ph, err)
		}
	}
}

// TestTimeoutError checks that servers take the error for what an expired
// deadline of package net gives them, but that nobody takes it for a reason to try
// again: gorilla/websocket hides a temporary error, and loops retry after one.
func TestTimeoutError(t *testing.T) {
	err := error(&TimeoutError{Reason: ReasonMinReadRate, Limit: time.Second, Elapsed: 1250 * time.Millisecond})
	var ne net.Error
	//lint:ignore SA1019 libraries ask for it all the same
	if !errors.As(fmt.Errorf("read: %w", err), &ne) || !ne.Timeout() || ne.Temporary() {
		t.Errorf("%v is no net.Error that is a lasting timeout", err)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v matches the wrong errors", err)
	}
	var te *TimeoutError
	if !errors.As(fmt.Errorf("read: %w", err), &te) || te.Reason != ReasonMinReadRate {
		t.Errorf("%v does not tell its reason", err)
	}
	for _, want := range []string{"i/o timeout", "MinReadRate", "1s", "1.25s"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not contain %q", err, want)
		}
	}
}

func TestReasonString(t *testing.T) {
	want := []string{"none", "idle", "read", "write", "max_age", "heartbeat", "min_read_rate", "min_write_rate", "phase", "drain", "shed", "evict", "reason 12"}
	for r, name := range want {
		if got := Reason(r).String(); got != name {
			t.Errorf("Reason(%d) is %q, want %q", r, got, name)
		}
	}
}

// TestReasonsNameAField of Policy, which is what the error calls the limit.
func TestReasonsNameAField(t *testing.T) {
	for r := ReasonIdle; r < numLimits; r++ {
		setting := table[r].setting
		if _, ok := reflect.TypeFor[Policy]().FieldByName(setting); !ok {
			t.Errorf("the setting of %v is %q, which is no field of Policy", r, setting)
		}
		if !strings.Contains(errNoLimit.Error(), setting) {
			t.Errorf("%q leaves out %s", errNoLimit, setting)
		}
		err := TimeoutError{Reason: r, Limit: time.Second, Elapsed: 2 * time.Second}
		if want := "i/o timeout: " + setting + " of 1s passed after 2s"; err.Error() != want {
			t.Errorf("%q, want %q", &err, want)
		}
		err.Setting, err.Phase = "BodyRate", "request"
		if want := "i/o timeout: request: BodyRate of 1s passed after 2s"; err.Error() != want {
			t.Errorf("%q, want %q", &err, want)
		}
		err.Rate = Rate{BytesPerSecond: 50_000, Grace: time.Second}
		if want := "i/o timeout: request: BodyRate of 50000 B/s not reached after 2s"; err.Error() != want {
			t.Errorf("%q, want %q", &err, want)
		}
	}
}

// TestTickFor has the default tick be fine enough for the shortest limit, whichever it is.
func TestTickFor(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		policies []Policy
		want     time.Duration
	}{
		{nil, 100 * ms},
		{[]Policy{{IdleTimeout: time.Minute}}, 100 * ms},
		{[]Policy{{IdleTimeout: time.Minute, Heartbeat: Heartbeat{Interval: 20 * s, Timeout: 3 * s}}}, 60 * ms},
		{[]Policy{{IdleTimeout: time.Minute}, {PhaseTimeout: 2 * s}}, 40 * ms},
		{[]Policy{{MinReadRate: Rate{100, s}}, {MaxAge: time.Hour}}, 20 * ms},
		{[]Policy{{WriteTimeout: 100 * ms}}, 10 * ms},
	} {
		if got := TickFor(c.policies...); got != c.want {
			t.Errorf("%+v: %v, want %v", c.policies, got, c.want)
		}
	}
	tr := newTracker(t, Policy{PhaseTimeout: 4 * s}, nil)
	if tr.opts.Tick != 80*ms {
		t.Errorf("the tick is %v", tr.opts.Tick)
	}
}

// TestSetsLimit sets one field at a time.
func TestSetsLimit(t *testing.T) {
	none := []string{"Name", "NoInterrupt", "ExplicitUse"}
	typ := reflect.TypeFor[Policy]()
	for i := range typ.NumField() {
		var p Policy
		field := reflect.ValueOf(&p).Elem().Field(i)
		for field.Kind() == reflect.Struct {
			field = field.Field(0)
		}
		switch field.Kind() {
		case reflect.String:
			field.SetString("any")
		case reflect.Bool:
			field.SetBool(true)
		default:
			field.SetInt(1)
		}
		if name := typ.Field(i).Name; p.SetsLimit() == slices.Contains(none, name) {
			t.Errorf("a policy of %s alone: %t", name, p.SetsLimit())
		}
	}
}

// TestSetting: where an adapter has a name for a limit, errors, ends and the tracker have it.
func TestSetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []End
		tracker, err := NewPhased(&Options{OnEnds: func(ends []End) { told = append(told, ends...) }}, func(phase string, r Reason) string {
			if phase == "web" && r == ReasonIdle {
				return "KeepAlive"
			}
			return ""
		})
		check(t, err)
		web, err := tracker.Phase(Policy{Name: "web", IdleTimeout: time.Second})
		check(t, err)
		var asked, expired *TimeoutError
		hooks := &Hooks{
			OnTimeout: func(_ any, err *TimeoutError) bool { asked = err; return false },
			Expire:    func(_ any, err *TimeoutError) { expired = err },
		}
		c := new(Conn)
		check(t, tracker.Track(c, t, hooks))
		c.Enter(web)
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

// TestSettingPanics: if the function that names limits panics, that's counted like a panic of a callback, and the limit has the
// name of its field.
func TestSettingPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := NewPhased(&Options{Logger: slog.New(slog.DiscardHandler)}, func(string, Reason) string { panic("no name") })
		check(t, err)
		defer tracker.Close()
		var expired *TimeoutError
		check(t, tracker.Track(new(Conn), t, &Hooks{Expire: func(_ any, err *TimeoutError) { expired = err }}))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if expired == nil || expired.Setting != "IdleTimeout" || tracker.Stats().Panics == 0 {
			t.Errorf("the error is %v, and %d panics were counted", expired, tracker.Stats().Panics)
		}
	})
}
