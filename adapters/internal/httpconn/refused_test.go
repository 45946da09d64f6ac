package httpconn

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// refused are durations that no limit may have with a tick of 10 ms, and what errors say of them.
var refused = map[time.Duration]string{
	30:                   " is 30ns, shorter than the tick of 10ms; use a longer timeout (with a unit, like 60*time.Second) or a shorter Idle.Tick when the listener is made",
	365 * 24 * time.Hour: " is 8760h0m0s; with a tick of 10ms the longest is 745h39m14.56s; use Off to disable it, or a longer Idle.Tick when the listener is made",
}

// setFields sets one duration of the struct that v points to after the other to d, and calls try each time. The other fields
// are zero. name is how an error names the field.
func setFields(v any, d time.Duration, try func(name string)) {
	s := reflect.ValueOf(v).Elem()
	for i := range s.NumField() {
		name := s.Type().Field(i).Name
		switch field := s.Field(i).Addr().Interface().(type) {
		case *time.Duration:
			*field = d
		case *idle.Rate:
			*field = idle.Rate{BytesPerSecond: 1, Grace: d}
			name += ".Grace"
		default:
			continue
		}
		try(name)
		s.Field(i).SetZero()
	}
}

func wantError(t *testing.T, got error, want string) {
	t.Helper()
	if fmt.Sprint(got) != want {
		t.Errorf("the error is\n  %v, want\n  %s", got, want)
	}
}

// TestErrorsNameTheField: a duration that is too short or too long is refused under the name of the field that was
// set, wherever it's set.
func TestErrorsNameTheField(t *testing.T) {
	inBubble(t, httplimits.Timeouts{}, func(t *testing.T, l *Listener, c *Conn, _ *wire) {
		c.HeaderRead()
		for d, why := range refused {
			var timeouts httplimits.Timeouts
			setFields(&timeouts, d, func(name string) {
				_, err := NewListener("httpconn", wires{}, timeouts, OverTLS)
				wantError(t, err, "httpconn: "+name+why)
				wantError(t, l.SetTimeouts(timeouts), "httpconn: "+name+why)
			})
			var limits httplimits.RequestLimits
			setFields(&limits, d, func(name string) {
				wantError(t, SetLimits("httpconn", c, 0, limits), "httpconn: SetLimits: "+name+why)
				_, err := l.ownPolicy(l.now.Load(), ownLimits{limits, stream})
				wantError(t, err, name+why)
			})
		}
	})
}

// TestErrorsNameFieldsOfPolicies: an error about the policy in Timeouts.Hijacked names Hijacked.IdleTimeout. One about the
// policy that Watch got names IdleTimeout.
func TestErrorsNameFieldsOfPolicies(t *testing.T) {
	inBubble(t, httplimits.Timeouts{}, func(t *testing.T, l *Listener, c *Conn, _ *wire) {
		c.Hijack()
		for _, d := range []time.Duration{30, 365 * 24 * time.Hour, -5} {
			var p idle.Policy
			setFields(&p, d, func(name string) {
				_, err := NewListener("httpconn", wires{}, httplimits.Timeouts{Hijacked: p}, OverTLS)
				wantPrefix(t, err, fmt.Sprintf("httpconn: Hijacked.%s is %v", name, d))
				wantPrefix(t, l.SetTimeouts(httplimits.Timeouts{Hijacked: p}), fmt.Sprintf("httpconn: Hijacked.%s is %v", name, d))
				wantPrefix(t, Watch("httpconn", c, p, httplimits.Callbacks{}), fmt.Sprintf("httpconn: Watch: %s is %v", name, d))
			})
		}
		for name, o := range map[string]idle.Options{"Tick is 1ns": {Tick: 1}, "Shards is -1": {Shards: -1}, "Budget is -1ns": {Budget: -1}} {
			_, err := NewListener("httpconn", wires{}, httplimits.Timeouts{Idle: o}, OverTLS)
			wantPrefix(t, err, "httpconn: Idle."+name)
		}
	})
}

func wantPrefix(t *testing.T, got error, want string) {
	t.Helper()
	if !strings.HasPrefix(fmt.Sprint(got), want) {
		t.Errorf("the error is\n  %v, want\n  %s...", got, want)
	}
}

// TestLongestIsThatOfIdle, which knows how many ticks its clock can count.
func TestLongestIsThatOfIdle(t *testing.T) {
	tracker, err := idle.NewPhased(&idle.Options{Tick: defaultTick}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tracker.Close()
	for d, ok := range map[time.Duration]bool{maxTicks * defaultTick: true, maxTicks*defaultTick + 1: false} {
		if _, err := tracker.Phase(idle.Policy{ReadTimeout: d}); (err == nil) != ok {
			t.Errorf("a limit of %v: %v", d, err)
		}
	}
}
