package httpsuite

import (
	"io"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// ofArguments are about what NewListener refuses. What settings may be, package httpconn
// tests.
var ofArguments = []promise{
	// Timeouts that make no sense are refused, and the error names the field and its value.
	{"RefusedTimeouts", plain, func(t *testing.T, u under) {
		beat := idle.Heartbeat{Interval: time.Second, Timeout: time.Second}
		for _, test := range []struct {
			timeouts Timeouts
			says     []string
		}{
			{Timeouts{HandshakeTimeout: -2}, []string{"HandshakeTimeout", "-2ns", "10s", "Off"}},
			{Timeouts{StreamTimeout: -2}, []string{"StreamTimeout", "-2ns"}},
			{Timeouts{HeaderTimeout: 5}, []string{"HeaderTimeout is 5ns", "10ms"}}, // forgot the unit
			{Timeouts{KeepAliveTimeout: 1 << 62}, []string{"keep-alive", "longest"}},
			{Timeouts{BodyRate: idle.Rate{BytesPerSecond: -2}}, []string{"BodyRate.BytesPerSecond", "-2", "240", "Off"}},
			{Timeouts{BodyRate: idle.Rate{BytesPerSecond: 1, Grace: -time.Second}}, []string{"BodyRate.Grace is -1s"}},
			{Timeouts{WriteRate: idle.Rate{BytesPerSecond: 1, Grace: -time.Second}}, []string{"WriteRate.Grace is -1s"}},
			{Timeouts{Hijacked: idle.Policy{IdleTimeout: -2}}, []string{"hijacked", "IdleTimeout", "-2ns"}},
			{Timeouts{Hijacked: idle.Policy{Heartbeat: beat}}, []string{"Hijacked", "Heartbeat", "1s", "Watch"}},
			{Timeouts{Idle: idle.Options{Tick: time.Hour}}, []string{"Options.Tick", "1h0m0s"}},
		} {
			ln := Listen(t)
			setup, err := u.Prepare(Config{Listener: ln, Timeouts: test.timeouts, Handler: echo, Log: io.Discard})
			if WantError(t, err, append(test.says, u.Package+": ")...); err == nil {
				setup.Listener.Close()
			}
			Connect(t, ln.Addr()) // the listener is left open
		}
	}},

	// So are listeners that are none, or have timeouts already.
	{"RefusedListeners", plain, func(t *testing.T, u under) {
		_, err := u.Prepare(Config{Handler: echo, Log: io.Discard})
		WantError(t, err, u.Package+": the listener is nil")
		setup, err := u.Prepare(Config{Listener: Listen(t), Timeouts: Timeouts{StreamTimeout: httplimits.Off}, Handler: echo, Log: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		defer setup.Listener.Close()
		_, err = u.Prepare(Config{Listener: setup.Listener, Handler: echo, Log: io.Discard})
		WantError(t, err, u.Package+": ", "already")
		if st := setup.Listener.Stats(); len(st.Phases) != u.Phases || len(st.Limits) != u.Limits {
			t.Errorf("there are counts of %v and %v", st.Phases, st.Limits)
		}
	}},
}
