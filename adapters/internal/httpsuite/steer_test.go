package httpsuite

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// ofSteering are about replacing timeouts while connections are open.
func ofSteering() []promise {
	return append(steering, each("SetTimeouts", usual, map[string][]string{
		"HandshakeTimeout": {""},
		"HeaderTimeout":    {Get("/"), "GET"},
		"BodyTimeout":      {Get("/"), Post(10_000) + "hello"},
		"BodyRate":         {Get("/"), Post(10_000) + "hello"},
		"HandlerTimeout":   {Get("/"), Get("/long")},
		"WriteTimeout":     {Get("/large")},
		"WriteRate":        {Get("/large")},
		"KeepAliveTimeout": {Get("/"), ""},
		"IdleTimeout":      {Upgrade},
	}, setTimeouts)...)
}

// setTimeouts tests that whatever a connection waits for, a longer limit applies at once, and a shorter one counts
// from when the wait began, even if it was off in between. One that has passed already ends the connection.
func setTimeouts(t *testing.T, u under, setting string, requests []string) {
	for _, ends := range []time.Duration{6 * limit, 2 * limit} {
		k := kinds[setting]
		h, _, release := routes(t, u, false)
		defer release()
		s := u.start(t, Only(4*limit, setting), h)
		c := s.DialBare()
		if u.secure && setting != "HandshakeTimeout" {
			c.Shake()
		}
		begun, last := c.Begun, len(requests)-1
		for _, text := range requests[:last] {
			begun = c.Send(text)
			c.Want(http.StatusOK)
		}
		if requests[last] != "" {
			begun = c.Send(requests[last])
		}
		s.Set(Only(time.Minute, setting))
		time.Sleep(4 * limit)
		off := Off()
		off.Hijacked = idle.Policy{MaxAge: time.Hour} // a hijacked connection without limits isn't tracked
		s.Set(off)
		time.Sleep(limit)
		s.WantNone()
		s.Set(Only(ends, setting))
		s.WantOnly(1, k.phase, k.reason)
		NotBefore(t, time.Now(), begun, max(ends, 5*limit))
		if took := time.Since(begun); !strings.HasSuffix(setting, "Rate") && took > max(ends, 5*limit)+limit/2 { // what a rate forgives takes longer
			t.Errorf("%s of %v took %v", setting, ends, took)
		}
		if k.status != 0 {
			c.Refused(k.status)
		}
	}
}

var steering = []promise{
	// The tracker knows how many bytes wait for a client that doesn't read.
	{"UnsentIsCounted", usual, func(t *testing.T, u under) {
		h, _, release := routes(t, u, false)
		defer release()
		s := u.start(t, Only(time.Minute), h)
		c := s.DialBare()
		if u.secure {
			c.Shake()
		}
		c.Send(Get("/large"))
		Eventually(t, "bytes wait", func() bool {
			unsent := 0
			err := s.Tracker().Visit(t.Context(), func(i idle.Info) { unsent = i.Unsent() })
			return err == nil && unsent > 1000
		})
	}},

	// The tracker's initial policy applies to no connection, so replacing it is an error.
	{"SetPolicyRefuses", plain, func(t *testing.T, u under) {
		s := u.start(t, All(Patience), echo)
		s.Dial().Get("/")
		minute := idle.Policy{IdleTimeout: time.Minute}
		for _, err := range []error{s.Tracker().SetPolicy(minute), s.Tracker().Initial().SetPolicy(minute)} {
			WantError(t, err, "idle: no connection of this tracker has its initial policy", "SetTimeouts")
		}
	}},

	// A HandlerTimeout that is set later applies to later requests.
	{"HandlerTimeoutComesAndGoes", everywhere, func(t *testing.T, u under) {
		h, _, release := routes(t, u, false)
		defer release()
		s := u.start(t, Only(time.Minute), func(r request) {
			if r.Path() == "/slow" {
				time.Sleep(2 * limit)
				return
			}
			h(r)
		})
		c := s.Dial()
		c.Get("/slow")
		s.Set(Only(2*Patience, "HandlerTimeout"))
		c.Get("/slow")
		s.Set(Only(time.Minute))
		c.Get("/slow")
		if st := s.Stats(); len(st.TimedOut) > 0 {
			t.Errorf("timed out: %v", st.TimedOut)
		}
		s.Set(Only(limit, "HandlerTimeout"))
		begun := c.Send(Get("/long"))
		NotBefore(t, c.Refused(http.StatusServiceUnavailable), begun, limit)
		s.WantOnly(1, "request", idle.ReasonPhase)
	}},

	// It applies to the request in progress too, from the end of its header.
	{"HandlerTimeoutComesDuringARequest", everywhere, func(t *testing.T, u under) {
		working, goOn := make(chan bool, 1), make(chan bool)
		defer close(goOn)
		s := u.start(t, Only(time.Minute), func(r request) {
			working <- true
			<-goOn
		})
		c := s.Dial()
		begun := c.Send(Get("/"))
		Receive(t, working)
		s.Set(Only(limit, "HandlerTimeout"))
		NotBefore(t, c.Drain(), begun, limit)
		s.WantOnly(1, "request", idle.ReasonPhase)
	}},

	// Timeouts can be replaced at any time, while requests have limits of their own.
	{"SetTimeoutsWhileServing", wraps, func(t *testing.T, u under) {
		takeOver, _ := hijack(echoLines)
		s := u.start(t, Only(time.Minute), func(r request) {
			if r.Path() == "/own" {
				NoError(t, r.SetLimits(httplimits.RequestLimits{BodyTimeout: time.Minute, WriteTimeout: httplimits.Off}))
			}
			if r.Path() == "/hijack" {
				takeOver(r)
				return
			}
			echo(r)
		})
		var over atomic.Bool
		var all sync.WaitGroup
		all.Go(func() {
			for i := 0; !over.Load(); i++ {
				to := Only(time.Minute, [][]string{{}, {"HandlerTimeout"}, {"IdleTimeout", "BodyRate"}}[i%3]...)
				to.KeepAliveTimeout = []time.Duration{Patience, httplimits.Off}[i%2]
				NoError(t, s.SetTimeouts(to))
				time.Sleep(ms)
			}
		})
		for range 4 {
			c := s.Dial()
			all.Go(func() {
				for i := range 60 {
					path := []string{"/", "/own", "/own"}[i%3]
					if _, err := io.WriteString(c, postTo(path, 5)+"hello"+Get(path)); err != nil {
						t.Error(err)
						return
					}
					for _, want := range []string{"hello", ""} {
						response, err := http.ReadResponse(c.In, nil)
						if err != nil {
							t.Error(err)
							return
						}
						if b, err := io.ReadAll(response.Body); string(b) != want || err != nil {
							t.Errorf("got %q and %v", b, err)
						}
					}
				}
				c.upgrade()
				c.Send("over\n")
				c.Line("over")
				c.Close()
			})
		}
		all.Go(func() { time.Sleep(limit); over.Store(true) })
		all.Wait()
		s.WantNone()
	}},
}
