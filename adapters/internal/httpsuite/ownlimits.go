package httpsuite

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// ofOwnLimits are about requests for which the handler has called SetLimits.
var ofOwnLimits = []promise{
	// An upload that's slower than the listener allows is served under its own limits. The next
	// one on the same connection is cut.
	{"OwnLimitsOfABody", usual, func(t0 *testing.T, u under) {
		for setting, own := range map[string]httplimits.RequestLimits{
			"BodyTimeout": {BodyTimeout: time.Minute},
			"BodyRate":    {BodyRate: idle.Rate{BytesPerSecond: 1, Grace: time.Minute}},
		} {
			t0.Run(setting, func(t0 *testing.T) {
				t0.Parallel()
				t := intime.Of(t0, limit/2)
				ended := make(chan error, 3)
				var begun Gate // the handler: no limit counts until it has set its own
				to := Only(limit, setting)
				to.OnTimeout = begun.Keep
				s := u.start(t0, to, func(r Request) {
					if r.Path() == "/own" {
						if err := r.SetLimits(own); err != nil {
							t0.Error(err)
						}
					}
					begun.Open()
					_, err := io.Copy(io.Discard, r.Body())
					ended <- err
				}, streamBodies)
				c := s.Dial()
				for range 2 {
					begun.Shut()
					c.Send(PostTo("/own", 2*len(half)) + half)
					time.Sleep(3 * limit)
					c.Send(half)
					if err := Receive(t, ended); err != nil {
						t.Errorf("with limits of its own: %v", err)
					}
					c.Want(http.StatusOK)
				}
				if st := s.Stats(); len(st.TimedOut) > 0 {
					t.Errorf("timed out: %v", st.TimedOut)
				}
				sent := c.Send(Post(2*len(half)) + half)
				NotBefore(t0, c.Refused(http.StatusRequestTimeout), sent, limit)
				WantTimeout(t0, Receive(t0, ended), "request", kinds[setting].reason)
				s.WantOnly(1, "request", kinds[setting].reason)
			})
		}
	}},

	// A request's own limits end it, too.
	{"OwnLimitsCut", everywhere, func(t *testing.T, u under) {
		for setting, own := range map[string]httplimits.RequestLimits{
			"BodyTimeout":    {BodyTimeout: limit},
			"BodyRate":       {BodyRate: idle.Rate{BytesPerSecond: 10_000, Grace: limit}},
			"HandlerTimeout": {HandlerTimeout: limit},
			"WriteTimeout":   {WriteTimeout: limit},
			"WriteRate":      {WriteRate: idle.Rate{BytesPerSecond: 1 << 28, Grace: limit}},
		} {
			if u.Rare > 0 && setting != "HandlerTimeout" && setting != "WriteTimeout" {
				continue
			}
			t.Run(setting, func(t *testing.T) {
				t.Parallel()
				h, _, release := routes(t, u, false)
				defer release()
				s := u.start(t, Only(time.Minute), func(r Request) {
					if r.Path() != "/" {
						if err := r.SetLimits(own); err != nil {
							t.Error(err)
						}
					}
					h(r)
				}, streamBodies)
				c := s.Dial()
				if strings.HasPrefix(setting, "Write") {
					c.Narrow(16 << 10)
				}
				c.Get("/")
				k := kinds[setting]
				begun := c.Send(map[string]string{"HandlerTimeout": Get("/long"), "WriteTimeout": Get("/large"), "WriteRate": Get("/large")}[setting])
				if strings.HasPrefix(setting, "Body") {
					begun = c.Send(PostTo("/upload", 2*len(half)) + half[:len(half)-1])
				}
				s.WantOnly(1, k.phase, k.reason)
				NotBefore(t, time.Now(), begun, limit)
				switch {
				case setting == "HandlerTimeout" && !u.Cancels: // the handler doesn't return in time, and is on the server's goroutine
					c.Drain()
				case k.status != 0:
					c.Refused(k.status)
				}
			})
		}
	}},

	// A download whose client pauses is completed under its own limits. The next one is cut.
	{"OwnLimitsOfAResponse", usual, func(t0 *testing.T, u under) {
		t := intime.Of(t0, limit/2)
		s := u.start(t0, Only(limit, "WriteTimeout"), func(r Request) {
			if r.Path() == "/own" {
				if err := r.SetLimits(httplimits.RequestLimits{WriteTimeout: time.Minute}); err != nil {
					t0.Error(err)
				}
			}
			r.Write(Large)
		})
		c := s.Dial()
		c.Narrow(256 << 10) // so that the kernel doesn't enlarge it during the first response
		c.Send(Get("/own"))
		time.Sleep(3 * limit)
		if body := c.Want(http.StatusOK); len(body) != len(Large) {
			t.Errorf("got %d bytes", len(body))
		}
		begun := c.Send(Get("/"))
		s.WantOnly(1, "request", idle.ReasonWrite)
		NotBefore(t0, c.wantReset(), begun, limit)
	}},

	{"OwnHandlerTimeout", everywhere, func(t0 *testing.T, u under) {
		t := intime.Of(t0, limit/2)
		h, _, release := routes(t0, u, false)
		defer release()
		var begun Gate // the handler: a slow one would not have set its limit yet
		to := Only(limit, "HandlerTimeout")
		to.OnTimeout = begun.Keep
		s := u.start(t0, to, func(r Request) {
			if r.Path() == "/own" {
				if err := r.SetLimits(httplimits.RequestLimits{HandlerTimeout: httplimits.Off}); err != nil {
					t.Error(err)
				}
				begun.Open()
				time.Sleep(3 * limit)
				return
			}
			h(r)
		})
		c := s.Dial()
		c.Get("/own")
		sent := c.Send(Get("/long"))
		NotBefore(t0, c.Refused(http.StatusServiceUnavailable), sent, limit)
		s.WantOnly(1, "request", idle.ReasonPhase)
	}},

	// A request's own limits end with it, even if the next request is pipelined behind it.
	{"OwnLimitsAndPipelining", usual, func(t *testing.T, u under) {
		s := u.start(t, Only(limit, "BodyTimeout"), func(r Request) {
			if r.Path() == "/own" {
				if err := r.SetLimits(httplimits.RequestLimits{BodyTimeout: httplimits.Off}); err != nil {
					t.Error(err)
				}
			}
			echo(r)
		})
		for _, own := range []string{Get("/own"), PostTo("/own", 5) + "hello"} {
			c := s.Dial()
			begun := c.Send(own + Post(10) + "hello")
			NotBefore(t, c.Drain(), begun, limit)
		}
		s.WantOnly(2, "request", idle.ReasonRead)
	}},

	// Invalid limits are refused, and so is SetLimits after the connection has been hijacked.
	{"SetLimitsRefuses", usual, func(t *testing.T, u under) {
		over := make(chan error, 1)
		s := u.start(t, Only(limit, "BodyTimeout"), func(r Request) {
			WantError(t, r.SetLimits(httplimits.RequestLimits{BodyTimeout: -2}), u.Package+": SetLimits: ", "BodyTimeout is -2ns", "listener's", "Off")
			WantError(t, r.SetLimits(httplimits.RequestLimits{WriteRate: idle.Rate{BytesPerSecond: 1, Grace: -2}}), u.Package+": SetLimits: ", "WriteRate.Grace is -2ns")
			r.Hijack(func(c net.Conn, _ *bufio.Reader) {
				defer c.Close()
				over <- r.SetLimits(httplimits.RequestLimits{})
			})
		})
		s.Dial().Send(Upgrade)
		if err := Receive(t, over); err == nil || errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("SetLimits of a hijacked connection gives %v", err)
		}
	}},
}
