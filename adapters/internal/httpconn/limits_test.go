package httpconn

import (
	"fmt"
	"reflect"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// TestSize pins what a connection costs: the allocator gives it 240 bytes.
func TestSize(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skip("the size is that of 64-bit systems")
	}
	if size := unsafe.Sizeof(Conn{}); size != 232 {
		t.Errorf("a Conn takes %d bytes, not 232", size)
	}
	if at := unsafe.Offsetof(Conn{}.Conn); at != 8 {
		t.Errorf("idlenet's part begins at %d", at)
	}
}

// policiesOf returns what becomes of t.
func policiesOf(t *testing.T, timeouts httplimits.Timeouts) [numPhases]idle.Policy {
	t.Helper()
	all, _, err := buildPolicies(&timeouts)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestDefaults are those that the documentation of Timeouts shows.
func TestDefaults(t *testing.T) {
	rate := idle.Rate{BytesPerSecond: 240, Grace: 5 * time.Second}
	want := [numPhases]idle.Policy{
		Handshake: {Name: "handshake", PhaseTimeout: 10 * time.Second},
		Header:    {Name: "request header", NoInterrupt: true, PhaseTimeout: 10 * time.Second},
		Request:   {Name: "request", NoInterrupt: true, ReadTimeout: 30 * time.Second, MinReadRate: rate, WriteTimeout: 30 * time.Second, MinWriteRate: rate},
		KeepAlive: {Name: "keep-alive", ExplicitUse: true, PhaseTimeout: 75 * time.Second},
		Streams:   {Name: "streams", NoInterrupt: true, IdleTimeout: 5 * time.Minute, WriteTimeout: 30 * time.Second, MinWriteRate: rate},
		Hijacked:  {Name: "hijacked"},
		stream:    {Name: "request stream", ReadTimeout: 30 * time.Second, MinReadRate: rate, WriteTimeout: 30 * time.Second, MinWriteRate: rate},
	}
	for p, got := range policiesOf(t, httplimits.Timeouts{}) {
		if got != want[p] {
			t.Errorf("%v is %+v, want %+v", Phase(p), got, want[p])
		}
	}
}

// only is Timeouts of which all is off but the field of the given name, and a pointer
// to that.
func only(name string) (*httplimits.Timeouts, reflect.Value) {
	const off = httplimits.Off
	rate := idle.Rate{BytesPerSecond: off}
	t := &httplimits.Timeouts{HandshakeTimeout: off, HeaderTimeout: off, BodyTimeout: off, BodyRate: rate, HandlerTimeout: off,
		WriteTimeout: off, WriteRate: rate, KeepAliveTimeout: off, StreamTimeout: off}
	field := reflect.ValueOf(t).Elem().FieldByName(name)
	field.SetZero()
	return t, field.Addr()
}

// TestDurations: each is so long by default, can be Off or something else, and is named
// where it is refused.
func TestDurations(t *testing.T) {
	for name, test := range map[string]struct {
		byDefault time.Duration
		of        func(all [numPhases]idle.Policy) time.Duration
	}{
		"HandshakeTimeout": {10 * time.Second, func(all [numPhases]idle.Policy) time.Duration { return all[Handshake].PhaseTimeout }},
		"HeaderTimeout":    {10 * time.Second, func(all [numPhases]idle.Policy) time.Duration { return all[Header].PhaseTimeout }},
		"BodyTimeout":      {30 * time.Second, func(all [numPhases]idle.Policy) time.Duration { return all[Request].ReadTimeout }},
		"HandlerTimeout":   {0, func(all [numPhases]idle.Policy) time.Duration { return all[Request].PhaseTimeout }},
		"WriteTimeout":     {30 * time.Second, func(all [numPhases]idle.Policy) time.Duration { return all[Request].WriteTimeout }},
		"KeepAliveTimeout": {75 * time.Second, func(all [numPhases]idle.Policy) time.Duration { return all[KeepAlive].PhaseTimeout }},
		"StreamTimeout":    {5 * time.Minute, func(all [numPhases]idle.Policy) time.Duration { return all[Streams].IdleTimeout }},
	} {
		for value, want := range map[time.Duration]time.Duration{0: test.byDefault, httplimits.Off: 0, time.Hour: time.Hour, 1: 1} {
			timeouts, field := only(name)
			*field.Interface().(*time.Duration) = value
			all := policiesOf(t, *timeouts)
			if got := test.of(all); got != want {
				t.Errorf("%s of %v becomes %v, want %v", name, value, got, want)
			}
			for p, got := range all {
				if want == 0 && got.SetsLimit() {
					t.Errorf("%s of %v: %v is %+v", name, value, Phase(p), got)
				}
			}
		}
		timeouts, field := only(name)
		*field.Interface().(*time.Duration) = -2
		_, _, err := buildPolicies(timeouts)
		if want := fmt.Sprintf("%s is -2ns; use 0 for the default of %v, or Off to disable it", name, test.byDefault); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestRates: likewise. One can be set without a grace; that of one that is off does
// not matter.
func TestRates(t *testing.T) {
	byDefault := idle.Rate{BytesPerSecond: 240, Grace: 5 * time.Second}
	for name, of := range map[string]func(all [numPhases]idle.Policy) idle.Rate{
		"BodyRate":  func(all [numPhases]idle.Policy) idle.Rate { return all[Request].MinReadRate },
		"WriteRate": func(all [numPhases]idle.Policy) idle.Rate { return all[Request].MinWriteRate },
	} {
		for _, test := range []struct {
			value, want idle.Rate
			err         string
		}{
			{value: idle.Rate{}, want: byDefault},
			{value: idle.Rate{BytesPerSecond: httplimits.Off}},
			{value: idle.Rate{BytesPerSecond: httplimits.Off, Grace: time.Hour}},
			{value: idle.Rate{BytesPerSecond: 7}, want: idle.Rate{BytesPerSecond: 7, Grace: 5 * time.Second}},
			{value: idle.Rate{BytesPerSecond: 7, Grace: time.Hour}, want: idle.Rate{BytesPerSecond: 7, Grace: time.Hour}},
			{value: idle.Rate{BytesPerSecond: -2}, err: ".BytesPerSecond is -2; use 0 for the default of 240, or Off to disable it"},
			{value: idle.Rate{Grace: time.Second}, err: ".BytesPerSecond is 0, but its Grace is 1s; set both, or none for the default"},
		} {
			timeouts, field := only(name)
			*field.Interface().(*idle.Rate) = test.value
			all, _, err := buildPolicies(timeouts)
			switch {
			case test.err != "" && (err == nil || err.Error() != name+test.err):
				t.Errorf("%s of %+v: %v, want %s", name, test.value, err, test.err)
			case test.err == "" && (err != nil || of(all) != test.want):
				t.Errorf("%s of %+v becomes %+v, want %+v; %v", name, test.value, of(all), test.want, err)
			}
		}
	}
}

// TestEveryLimitIsNamed after the setting that it has its value from, whichever are
// set.
func TestEveryLimitIsNamed(t *testing.T) {
	fields := []string{"HandshakeTimeout", "HeaderTimeout", "BodyTimeout", "BodyRate", "HandlerTimeout", "WriteTimeout", "WriteRate", "KeepAliveTimeout", "StreamTimeout"}
	for set := range 1 << len(fields) {
		timeouts, _ := only("Hijacked")
		values := map[string]time.Duration{}
		for i, name := range fields {
			if set>>i&1 == 0 {
				continue
			}
			values[name] = time.Duration(i+1) * time.Second
			switch field := reflect.ValueOf(timeouts).Elem().FieldByName(name).Addr().Interface().(type) {
			case *time.Duration:
				*field = values[name]
			case *idle.Rate:
				*field = idle.Rate{BytesPerSecond: 1, Grace: values[name]}
			}
		}
		all, known, err := buildPolicies(timeouts)
		if err != nil {
			t.Fatal(err)
		}
		for p, policy := range all {
			for reason, got := range map[idle.Reason]time.Duration{
				idle.ReasonIdle: policy.IdleTimeout, idle.ReasonRead: policy.ReadTimeout,
				idle.ReasonMinReadRate: policy.MinReadRate.Grace, idle.ReasonPhase: policy.PhaseTimeout,
				idle.ReasonWrite: policy.WriteTimeout, idle.ReasonMinWriteRate: policy.MinWriteRate.Grace,
			} {
				if setting := known[limitKey{policy.Name, reason}]; got > 0 && got != values[setting] {
					t.Errorf("with %v, %v has a limit of %v for %v, which is called %q", values, Phase(p), got, reason, setting)
				}
			}
		}
	}
}

// TestTick is fine for short limits, and coarse for the usual ones.
func TestTick(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		timeouts httplimits.Timeouts
		want     time.Duration
	}{
		{httplimits.Timeouts{}, 100 * ms},
		{httplimits.Timeouts{HeaderTimeout: 2 * time.Second}, 40 * ms},
		{httplimits.Timeouts{BodyRate: idle.Rate{BytesPerSecond: 1, Grace: time.Second}}, 20 * ms},
		{httplimits.Timeouts{Hijacked: idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Minute, Timeout: 3 * time.Second, Passive: true}}}, 60 * ms},
		{httplimits.Timeouts{KeepAliveTimeout: 50 * ms}, 10 * ms},
	} {
		all := policiesOf(t, c.timeouts)
		if got := idle.TickFor(all[:]...); got != c.want {
			t.Errorf("%+v: %v, want %v", c.timeouts, got, c.want)
		}
	}
}
