package idlehttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// Streams that are open follow SetTimeouts, also if streams had no limits before.
func TestHTTP2SetTimeoutsOfStreams(t *testing.T) {
	const limit = 300 * ms
	for name, test := range map[string]struct {
		window  uint32
		block   string
		flags   byte
		setting string
		reason  idle.Reason
	}{
		"no body":     {defaultWindow, postBlock, 0, "BodyTimeout", idle.ReasonRead},
		"body rate":   {defaultWindow, postBlock, 0, "BodyRate", idle.ReasonMinReadRate},
		"window shut": {noWindow, getBlock, endStream, "WriteTimeout", idle.ReasonWrite},
	} {
		for before, first := range map[string]Timeouts{"off": httpsuite.Off(), "on": httpsuite.Only(4*limit, test.setting)} {
			t.Run(name+", before "+before, func(t *testing.T) {
				httpsuite.Both(t, func(t *testing.T, secure bool) {
					inTime := intime.Of(t, 2*limit)
					first := first
					first.StreamTimeout, first.KeepAliveTimeout = patience, patience
					ended := make(chan error, 1)
					s := start2(t, secure, first, func(w http.ResponseWriter, r *http.Request) {
						_, err := io.Copy(io.Discard, r.Body)
						if err == nil {
							_, err = w.Write(httpsuite.Large)
						}
						ended <- err
					})
					f := s.dialFramed(test.window)
					begun := f.open(1, test.block, test.flags)
					to := httpsuite.Only(time.Minute, test.setting)
					if err := s.SetTimeouts(to); err != nil {
						t.Fatal(err)
					}
					time.Sleep(5 * limit)
					if st := s.Stats(); st.Phases["request stream"] > 0 {
						inTime.Errorf("reset by %v", st.Limits)
					}
					to = httpsuite.Only(7*limit, test.setting)
					if err := s.SetTimeouts(to); err != nil {
						t.Fatal(err)
					}
					httpsuite.NotBefore(t, f.wantReset(1), begun, 7*limit)
					if err := httpsuite.Receive(t, ended); err == nil {
						t.Error("all has been read and written")
					}
					s.wantReset(1)
					if n := s.Stats().Limits[test.setting]; n != 1 {
						t.Errorf("%d by %s", n, test.setting)
					}
				})
			})
		}
	}
}

// So does the connection.
func TestHTTP2SetTimeoutsOfConnections(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		const limit = 300 * ms
		for setting, test := range map[string]struct {
			text, phase string
			reason      idle.Reason
		}{
			"KeepAliveTimeout": {hello, "keep-alive", idle.ReasonReadTotal},
			"HeaderTimeout":    {hello + request[:10], "request header", idle.ReasonReadTotal},
			"StreamTimeout":    {hello + request, "streams", idle.ReasonIdle},
		} {
			t.Run(setting, func(t *testing.T) {
				t.Parallel()
				s := start2(t, secure, httpsuite.Only(time.Minute), func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
				c := s.Dial("h2")
				begun := c.Send(test.text)
				time.Sleep(limit / 2)
				if err := s.SetTimeouts(httpsuite.Only(limit, setting)); err != nil {
					t.Fatal(err)
				}
				httpsuite.NotBefore(t, c.Drain(), begun, limit)
				s.WantOnly(1, test.phase, test.reason)
			})
		}
	})
}

// A request of HTTP/2 is told that it cannot have limits of its own.
func TestHTTP2SetLimits(t *testing.T) {
	httpsuite.Both(t, func(t *testing.T, secure bool) {
		s := start2(t, secure, httpsuite.Off(), func(w http.ResponseWriter, r *http.Request) {
			err := SetLimits(r, RequestLimits{BodyTimeout: time.Minute})
			if httpsuite.WantError(t, err, "idlehttp: SetLimits: ", "HTTP/2"); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%v is not ErrUnsupported", err)
			}
		})
		s.do(s.transport(true), nil)
	})
}

// SetLimits refuses requests that came another way, or are over.
func TestSetLimitsOfOthers(t *testing.T) {
	t.Parallel()
	r, err := http.NewRequest("GET", "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	httpsuite.WantError(t, SetLimits(r, RequestLimits{}), "idlehttp: SetLimits: ", "did not arrive")
	served := make(chan *http.Request, 1)
	s := start(t, false, httpsuite.Only(300*ms, "KeepAliveTimeout"), func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		httpsuite.WantError(t, SetLimits(r.WithContext(ctx), RequestLimits{}), "idlehttp: SetLimits: ", "cancelled")
		served <- r
	})
	c := s.Dial()
	begun := c.Send(httpsuite.Get("/"))
	c.Want(http.StatusOK)
	httpsuite.WantError(t, SetLimits(httpsuite.Receive(t, served), RequestLimits{BodyTimeout: httplimits.Off}), "has ended")
	httpsuite.NotBefore(t, c.WantClosed(), begun, 300*ms)
	s.WantOnly(1, "keep-alive", idle.ReasonRead)
}
