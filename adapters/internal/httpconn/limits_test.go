package httpconn

import (
	"fmt"
	"slices"
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
	to, err := newTerms(timeouts)
	if err != nil {
		t.Fatal(err)
	}
	return to.policies
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

// off are Timeouts without limits.
func off() httplimits.Timeouts {
	const off = httplimits.Off
	rate := idle.Rate{BytesPerSecond: off}
	return httplimits.Timeouts{HandshakeTimeout: off, HeaderTimeout: off, BodyTimeout: off, BodyRate: rate, HandlerTimeout: off,
		WriteTimeout: off, WriteRate: rate, KeepAliveTimeout: off, StreamTimeout: off}
}

// TestOff disables every limit.
func TestOff(t *testing.T) {
	for p, got := range policiesOf(t, off()) {
		if got.SetsLimit() {
			t.Errorf("%v is %+v", Phase(p), got)
		}
	}
}

// TestNegative durations are refused, with the default in the error.
func TestNegative(t *testing.T) {
	defaults, err := newTerms(httplimits.Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	byDefault := settings(&defaults.timeouts)
	for i, s := range settings(new(httplimits.Timeouts)) {
		if s.duration == nil {
			continue
		}
		var timeouts httplimits.Timeouts
		*settings(&timeouts)[i].duration = -2
		_, err := newTerms(timeouts)
		wantError(t, err, fmt.Sprintf("%s is -2ns; use 0 for the default of %v, or Off to disable it", s.name, *byDefault[i].duration))
	}
}

// TestRates can be set without a grace. The grace of a rate that is off doesn't matter.
func TestRates(t *testing.T) {
	for name, of := range map[string]func(*httplimits.Timeouts) *idle.Rate{
		"BodyRate":  func(t *httplimits.Timeouts) *idle.Rate { return &t.BodyRate },
		"WriteRate": func(t *httplimits.Timeouts) *idle.Rate { return &t.WriteRate },
	} {
		for _, test := range []struct {
			value, want idle.Rate
			err         string
		}{
			{value: idle.Rate{BytesPerSecond: httplimits.Off, Grace: time.Hour}},
			{value: idle.Rate{BytesPerSecond: 7}, want: idle.Rate{BytesPerSecond: 7, Grace: 5 * time.Second}},
			{value: idle.Rate{BytesPerSecond: 7, Grace: time.Hour}, want: idle.Rate{BytesPerSecond: 7, Grace: time.Hour}},
			{value: idle.Rate{BytesPerSecond: -2}, err: ".BytesPerSecond is -2; use 0 for the default of 240, or Off to disable it"},
			{value: idle.Rate{BytesPerSecond: 7, Grace: -2}, err: ".Grace is -2ns; use 0 for the default of 5s"},
			{value: idle.Rate{Grace: time.Second}, err: ".BytesPerSecond is 0, but its Grace is 1s; set both, or none for the default"},
		} {
			timeouts := off()
			*of(&timeouts) = test.value
			if to, err := newTerms(timeouts); test.err != "" {
				wantError(t, err, name+test.err)
			} else if err != nil || *of(&to.timeouts) != test.want {
				t.Errorf("%s of %+v becomes %+v, want %+v; %v", name, test.value, to, test.want, err)
			}
		}
	}
}

// TestEveryLimitIsNamed after the setting that it has its value from, whichever are
// set.
func TestEveryLimitIsNamed(t *testing.T) {
	fields := settings(new(httplimits.Timeouts))
	n := slices.IndexFunc(fields, func(s setting) bool { return s.name == "MaxAge" }) // has no limit of its own in each phase
	for set := range 1 << n {
		timeouts, values := off(), map[string]time.Duration{}
		for i, s := range settings(&timeouts)[:n] {
			if set>>i&1 == 0 {
				continue
			}
			values[s.name] = time.Duration(i+1) * time.Second
			if s.rate != nil {
				*s.rate = idle.Rate{BytesPerSecond: 1, Grace: values[s.name]}
			} else {
				*s.duration = values[s.name]
			}
		}
		to, err := newTerms(timeouts)
		if err != nil {
			t.Fatal(err)
		}
		for p, policy := range to.policies {
			for reason, got := range map[idle.Reason]time.Duration{
				idle.ReasonIdle: policy.IdleTimeout, idle.ReasonRead: policy.ReadTimeout,
				idle.ReasonMinReadRate: policy.MinReadRate.Grace, idle.ReasonPhase: policy.PhaseTimeout,
				idle.ReasonWrite: policy.WriteTimeout, idle.ReasonMinWriteRate: policy.MinWriteRate.Grace,
			} {
				if setting := to.settingOf[limitKey{policy.Name, reason}]; got > 0 && got != values[setting] {
					t.Errorf("with %v, %v has a limit of %v for %v, which is called %q", values, Phase(p), got, reason, setting)
				}
			}
		}
	}
}
