package idlehttp

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
)

// aged are limits for the tests of MaxAge.
func aged() Timeouts {
	t := httpsuite.Off()
	t.MaxAge, t.MaxAgeGrace = time.Minute, 10*time.Second
	return t
}

// TestMaxAge: a client that makes requests is asked to leave when MaxAge has passed, and isn't timed out.
func TestMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.Listen(simnet.Config{Buffer: 64 << 10})
		s := startOn(t, network, false, aged(), echo)
		s.Memory = network
		begun := time.Now()
		c := s.Dial()
		for {
			c.Send(httpsuite.Get("/"))
			response := c.Response()
			io.Copy(io.Discard, response.Body)
			if response.Close {
				break
			}
			time.Sleep(time.Second)
		}
		if took := time.Since(begun); took < time.Minute || took > 62*time.Second {
			t.Errorf("asked to leave after %v", took)
		}
		c.WantClosed()
		s.WantNone()
	})
}

// TestMaxAgeOfHTTP2: in HTTP/2 a GOAWAY asks it.
func TestMaxAgeOfHTTP2(t *testing.T) {
	virtual(t, aged(), defaultWindow, echo, func(t *testing.T, f framed) {
		begun := time.Now()
		for stream := uint32(1); ; stream += 2 {
			f.open(stream, getBlock, endStream)
			ended, leaves := false, false
			for answered := false; !answered && !(leaves && ended); {
				g, err := f.read()
				if err != nil {
					t.Fatal(err)
				}
				leaves = leaves || g.kind == typeGoAway && g.code(0) == stream && g.code(4) == codeNone
				answered = g.kind == typePing
				if g.stream == stream && g.kind <= typeHeaders && g.flags&endStream != 0 {
					ended = true
					f.Send(ping) // whose answer comes after a GOAWAY
				}
			}
			if leaves && ended {
				break
			}
			time.Sleep(time.Second)
		}
		if took := time.Since(begun); took < time.Minute || took > 62*time.Second {
			t.Errorf("asked to leave after %v", took)
		}
		f.Drain()
		f.site.WantNone()
	})
}

// TestMaxAgeGrace: a connection that isn't used is ended when the grace has passed, and so is one within a request.
func TestMaxAgeGrace(t *testing.T) {
	for name, path := range map[string]string{"idle": "/", "busy": "/slow"} {
		t.Run(name, func(t *testing.T) {
			virtual(t, aged(), defaultWindow, func(w http.ResponseWriter, r *http.Request) {
				if path == "/slow" {
					<-r.Context().Done()
				}
			}, func(t *testing.T, f framed) {
				begun := f.open(1, getBlock, endStream)
				if took := f.Drain().Sub(begun); took < 70*time.Second || took > 72*time.Second {
					t.Errorf("ended after %v", took)
				}
				if st := f.site.Settled(); st.Limits["MaxAge"] != 1 {
					t.Errorf("%v", st.Limits)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				network := simnet.Listen(simnet.Config{Buffer: 64 << 10})
				s := startOn(t, network, false, aged(), func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/slow" {
						time.Sleep(2 * time.Minute)
					}
				})
				s.Memory = network
				c := s.Dial()
				begun := c.Send(httpsuite.Get(path))
				io.Copy(io.Discard, c.In)
				if took := time.Since(begun); took < 70*time.Second || took > 72*time.Second {
					t.Errorf("ended after %v", took)
				}
				if st := s.Settled(); st.Limits["MaxAge"] != 1 {
					t.Errorf("%v", st.Limits)
				}
			})
		})
	}
}

// TestMaxAgeWithoutGrace: with Off the connection is ended at once. A jitter makes it live longer.
func TestMaxAgeWithoutGrace(t *testing.T) {
	limits := aged()
	limits.MaxAgeGrace, limits.MaxAgeJitter = Off, 30*time.Second
	virtual(t, limits, defaultWindow, answers, func(t *testing.T, f framed) {
		begun := f.get(1)
		if took := f.Drain().Sub(begun); took < 59*time.Second || took > 92*time.Second {
			t.Errorf("ended after %v", took)
		}
		if st := f.site.Settled(); st.Limits["MaxAge"] != 1 {
			t.Errorf("%v", st.Limits)
		}
	})
}

// TestMaxAgeJitterAlone is a mistake.
func TestMaxAgeJitterAlone(t *testing.T) {
	_, err := Wrap(&http.Server{}, httpsuite.Listen(t), Timeouts{MaxAgeJitter: time.Second})
	httpsuite.WantError(t, err, "idlehttp: MaxAgeJitter is 1s, but MaxAge is off; set MaxAge too")
}
