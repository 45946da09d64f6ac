package httpsuite

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
	"github.com/idlewheel/idlewheel/idle"
)

// A Site is a running server with timeouts.
type Site struct {
	Listener
	Setup  Setup
	T      testing.TB
	Secure bool
	Served func() error     // waits for the end of Serve
	Memory *simnet.Listener // which Dial connects to; nil for a socket

	// How many responses clients have read that keep the connection open, and how often the
	// server has begun to wait for another request.
	answers, idles atomic.Int64
}

// Start starts the server that prepare returns, and ends it with the test. By then all
// connections must be gone and counted. A line in the server's log fails the test.
func Start(t testing.TB, secure bool, prepare func(log io.Writer, idle func()) (Setup, error)) *Site {
	t.Helper()
	s := &Site{T: t, Secure: secure}
	setup, err := prepare(FailWriter{t}, s.Idle)
	if err != nil {
		t.Fatal(err)
	}
	s.Setup, s.Listener = setup, setup.Listener
	ended := make(chan error, 1)
	go func() { ended <- setup.Serve(setup.Listener) }()
	s.Served = sync.OnceValue(func() error {
		select {
		case err := <-ended:
			return err
		case <-time.After(Patience):
			return errors.New("serving does not end")
		}
	})
	t.Cleanup(s.End)
	return s
}

// Idle records that the server has begun to wait for a client's next request.
func (s *Site) Idle() { s.idles.Add(1) }

// End ends the server and checks that nothing is left. First it waits until the server has
// noticed all timeouts, because it would log those that it finds closed. At last it waits until
// no connection is open, because a handler may still log.
func (s *Site) End() {
	if s.Setup.Open != nil {
		Eventually(s.T, "the server knows of all timeouts", func() bool { return s.Setup.Open() <= int64(s.Stats().Live) })
		defer Eventually(s.T, "the server has to do with no connection", func() bool { return s.Setup.Open() == 0 })
	}
	s.Setup.Close()
	if err := s.Served(); err != nil {
		s.T.Errorf("serving ended with %v", err)
	}
	s.Close()
	s.Settled()
}

// Set replaces the timeouts of the site.
func (s *Site) Set(to Timeouts) {
	s.T.Helper()
	if err := s.SetTimeouts(to); err != nil {
		s.T.Fatal(err)
	}
}

// Settled waits until the site has no connection, checks that its counts add up, and
// returns them.
func (s *Site) Settled() httplimits.Stats {
	s.T.Helper()
	var st httplimits.Stats
	Eventually(s.T, "no connection is left, and all are counted", func() bool {
		st = s.Stats()
		reasons, phases, settings := sum(st.TimedOut), sum(st.Phases), sum(st.Limits)
		connections := phases - st.Phases["request stream"]
		return st.Live == 0 && st.Tracked == st.Closed+st.HandedBack+reasons+st.Drained+st.Shed+st.Evicted && reasons == connections && phases == settings
	})
	return st
}

func sum[K comparable](counts map[K]uint64) (n uint64) {
	for _, count := range counts {
		n += count
	}
	return n
}

// WantOnly checks that n connections have timed out with the given phase and reason, and no
// others.
func (s *Site) WantOnly(n uint64, phase string, reason idle.Reason) {
	s.T.Helper()
	var st httplimits.Stats
	Eventually(s.T, "the timeouts are counted", func() bool { st = s.Stats(); return st.Phases[phase] >= n && st.TimedOut[reason] >= n })
	if st.Phases[phase] != n || sum(st.Phases) != n {
		s.T.Errorf("timed out in %v, want %d in the phase %q", st.Phases, n, phase)
	}
	if setting := Setting(phase, reason); st.Limits[setting] < n {
		s.T.Errorf("timed out by %v, want %d by %s", st.Limits, n, setting)
	}
	if st.TimedOut[reason] != n || sum(st.TimedOut) != n {
		s.T.Errorf("timed out for %v, want %d for %q", st.TimedOut, n, reason)
	}
}

// Setting returns the name of the setting that ends a connection with the given phase and reason.
func Setting(phase string, reason idle.Reason) string {
	byPhase := map[string]string{"handshake": "HandshakeTimeout", "request header": "HeaderTimeout", "keep-alive": "KeepAliveTimeout"}
	byReason := map[idle.Reason]string{idle.ReasonRead: "BodyTimeout", idle.ReasonMinReadRate: "BodyRate", idle.ReasonWrite: "WriteTimeout",
		idle.ReasonMinWriteRate: "WriteRate", idle.ReasonPhase: "HandlerTimeout", idle.ReasonIdle: "IdleTimeout", idle.ReasonHeartbeat: "Heartbeat"}
	switch {
	case byPhase[phase] != "":
		return byPhase[phase]
	case phase == "streams" && reason == idle.ReasonIdle:
		return "StreamTimeout"
	}
	return byReason[reason]
}

// WantNone checks that nothing has timed out.
func (s *Site) WantNone() {
	s.T.Helper()
	if st := s.Stats(); len(st.TimedOut) > 0 {
		s.T.Errorf("timed out: %v, in %v", st.TimedOut, st.Phases)
	}
}
