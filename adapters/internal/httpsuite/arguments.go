package httpsuite

import (
	"io"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
)

// ofArguments are about what NewListener refuses. What settings may be, package httpconn
// tests.
var ofArguments = []promise{
	// Timeouts that make no sense are refused, and the error names the field and its value.
	{"RefusedTimeouts", plain, func(t *testing.T, u under) {
		ln := Listen(t)
		setup, err := u.Prepare(Config{Listener: ln, Timeouts: Timeouts{HeaderTimeout: 5}, Handler: echo, Log: io.Discard})
		if WantError(t, err, u.Package+": ", "HeaderTimeout is 5ns", "10ms"); err == nil { // forgot the unit
			setup.Listener.Close()
		}
		Connect(t, ln.Addr()) // the listener is left open
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
