package httpsuite

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// ofOwnLimits are about requests for which the handler has called SetLimits.
func ofOwnLimits() []promise {
	return slices.Concat(ownLimits, each("OwnLimitsOfABody", usual, map[string]httplimits.RequestLimits{
		"BodyTimeout": {BodyTimeout: time.Minute},
		"BodyRate":    {BodyRate: idle.Rate{BytesPerSecond: 1, Grace: time.Minute}},
	}, ownLimitsOfABody), each("OwnLimitsCut", everywhere, map[string]httplimits.RequestLimits{
		"BodyTimeout":    {BodyTimeout: limit},
		"BodyRate":       {BodyRate: idle.Rate{BytesPerSecond: 1 << 20, Grace: limit}},
		"HandlerTimeout": {HandlerTimeout: limit},
		"WriteTimeout":   {WriteTimeout: limit},
		"WriteRate":      {WriteRate: idle.Rate{BytesPerSecond: 1 << 28, Grace: limit}},
	}, ownLimitsCut))
}

// own is a handler that gives requests of /own limits of their own.
func own(t *testing.T, limits httplimits.RequestLimits, h func(request)) func(request) {
	return func(r request) {
		if r.Path() == "/own" {
			NoError(t, r.SetLimits(limits))
		}
		h(r)
	}
}

var ownLimits = []promise{
	// A download whose client pauses is completed under its own limits. The next one is cut.
	{"OwnLimitsOfAResponse", usual, func(t *testing.T, u under) {
		s := u.start(t, Only(limit, "WriteTimeout"), own(t, httplimits.RequestLimits{WriteTimeout: time.Minute}, func(r request) { r.Write(Large) }))
		c := s.Dial()
		c.Send(Get("/own"))
		time.Sleep(3 * limit)
		if body := c.Want(http.StatusOK); len(body) != len(Large) {
			t.Errorf("got %d bytes", len(body))
		}
		begun := c.Send(Get("/"))
		s.WantOnly(1, "request", idle.ReasonWrite)
		NotBefore(t, c.wantReset(), begun, limit)
	}},

	{"OwnHandlerTimeout", everywhere, func(t *testing.T, u under) {
		h, _, release := routes(t, u, false)
		defer release()
		s := u.start(t, Only(limit, "HandlerTimeout"), own(t, httplimits.RequestLimits{HandlerTimeout: httplimits.Off}, func(r request) {
			if r.Path() == "/own" {
				time.Sleep(3 * limit)
				return
			}
			h(r)
		}))
		c := s.Dial()
		c.Get("/own")
		sent := c.Send(Get("/long"))
		NotBefore(t, c.Refused(http.StatusServiceUnavailable), sent, limit)
		s.WantOnly(1, "request", idle.ReasonPhase)
	}},

	// A request's own limits end with it, even if the next request is pipelined behind it.
	{"OwnLimitsAndPipelining", usual, func(t *testing.T, u under) {
		s := u.start(t, Only(limit, "BodyTimeout"), own(t, httplimits.RequestLimits{BodyTimeout: httplimits.Off}, echo))
		for _, request := range []string{Get("/own"), postTo("/own", 5) + "hello"} {
			c := s.Dial()
			begun := c.Send(request + Post(10) + "hello")
			NotBefore(t, c.Drain(), begun, limit)
		}
		s.WantOnly(2, "request", idle.ReasonRead)
	}},
}

// ownLimitsOfABody tests that an upload that's slower than the listener allows is served under its own limits. The next
// one on the same connection is cut.
func ownLimitsOfABody(t *testing.T, u under, setting string, limits httplimits.RequestLimits) {
	ended := make(chan error, 3)
	s := u.start(t, Only(limit, setting), own(t, limits, func(r request) {
		_, err := io.Copy(io.Discard, r.Body())
		ended <- err
	}), streamBodies)
	c := s.Dial()
	for range 2 {
		c.Send(postTo("/own", 2*len(half)) + half)
		time.Sleep(3 * limit)
		c.Send(half)
		if err := Receive(t, ended); err != nil {
			t.Errorf("with limits of its own: %v", err)
		}
		c.Want(http.StatusOK)
	}
	s.WantNone()
	sent := c.Send(Post(2*len(half)) + half)
	NotBefore(t, c.Refused(http.StatusRequestTimeout), sent, limit)
	wantTimeout(t, Receive(t, ended), "request", kinds[setting].reason)
	s.WantOnly(1, "request", kinds[setting].reason)
}

// ownLimitsCut tests that a request's own limits end it, too.
func ownLimitsCut(t *testing.T, u under, setting string, own httplimits.RequestLimits) {
	h, _, release := routes(t, u, false)
	defer release()
	s := u.start(t, Only(time.Minute), func(r request) {
		if r.Path() != "/" {
			NoError(t, r.SetLimits(own))
		}
		h(r)
	}, streamBodies)
	c := s.Dial()
	c.Get("/")
	k, upload := kinds[setting], postTo("/upload", 2*len(half))+half[:len(half)-1]
	begun := c.Send(map[string]string{"HandlerTimeout": Get("/long"), "WriteTimeout": Get("/large"), "WriteRate": Get("/large"), "BodyTimeout": upload, "BodyRate": upload}[setting])
	s.WantOnly(1, k.phase, k.reason)
	NotBefore(t, time.Now(), begun, limit)
	switch {
	case setting == "HandlerTimeout" && !u.cancels: // the handler doesn't return in time, and is on the server's goroutine
		c.Drain()
	case k.status != 0:
		c.Refused(k.status)
	}
}
