package idlehttp

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// TestUnreadBodyIsLimited has a handler that leaves a body to net/http after EnableFullDuplex. net/http reads the rest, which is limited
// then. Otherwise a client could hold the connection for any time.
func TestUnreadBodyIsLimited(t *testing.T) {
	const limit = time.Second
	inBubbles(t, func(t *testing.T, secure bool) {
		s := startInMemory(t, secure, httpsuite.Only(limit, "BodyTimeout"), func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).EnableFullDuplex()
			w.(http.Flusher).Flush()
		})
		c := s.Dial()
		c.Send(httpsuite.Post(100) + "x")
		time.Sleep(3 * limit)
		s.WantOnly(1, "request", idle.ReasonRead)
	})
}

// TestBodyOfAnEarlierRequest is read by a goroutine that a handler has left behind. The limits of the next request still count.
func TestBodyOfAnEarlierRequest(t *testing.T) {
	const limit = time.Second
	inBubbles(t, func(t *testing.T, secure bool) {
		var old io.Reader
		s := startInMemory(t, secure, httpsuite.Only(limit, "BodyTimeout"), func(w http.ResponseWriter, r *http.Request) {
			if old == nil {
				old = r.Body
				return
			}
			go func() {
				time.Sleep(limit / 2)
				old.Read(make([]byte, 1))
			}()
			io.ReadAll(r.Body)
		})
		c := s.Dial()
		c.Send(httpsuite.Post(4) + "body")
		c.Want(http.StatusOK)
		c.Send(httpsuite.Post(4) + "bod")
		c.Refused(http.StatusRequestTimeout)
		s.WantOnly(1, "request", idle.ReasonRead)
	})
}

// TestTrailers of a request get to the handler as with net/http alone, whether the request has announced them or not.
func TestTrailers(t *testing.T) {
	inBubbles(t, func(t *testing.T, secure bool) {
		s := startInMemory(t, secure, Timeouts{}, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, r.Trailer.Get("Sum"))
		})
		c := s.Dial()
		for _, header := range []string{"Trailer: Sum\r\n", ""} {
			c.Send("POST / HTTP/1.1\r\nHost: test\r\n" + header + "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nSum: 42\r\n\r\n")
			if got := c.Want(http.StatusOK); got != "42" {
				t.Errorf("with the header %q the trailer is %q", header, got)
			}
		}
	})
}

// TestRefusalHasNoHeaderOfTheHandler, such as a Content-Length or a cookie, which belong to the answer that the handler didn't give.
func TestRefusalHasNoHeaderOfTheHandler(t *testing.T) {
	const limit = time.Second
	for name, timeouts := range map[string]Timeouts{
		"BodyTimeout":    httpsuite.Only(limit, "BodyTimeout"),
		"HandlerTimeout": httpsuite.Only(limit, "HandlerTimeout"),
	} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, secure bool) {
				s := startInMemory(t, secure, timeouts, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Length", "6")
					w.Header().Set("Set-Cookie", "placed=1")
					w.WriteHeader(http.StatusEarlyHints)
					io.ReadAll(r.Body)
				})
				c := s.Dial()
				c.Send(httpsuite.Post(4) + "bod")
				c.Response() // 103
				r := c.Response()
				if b, err := io.ReadAll(r.Body); r.Header["Set-Cookie"] != nil || len(b) > 0 || err != nil {
					t.Errorf("the answer is %v with %q and %v", r, b, err)
				}
				if !strings.HasPrefix(r.Status, map[string]string{"BodyTimeout": "408", "HandlerTimeout": "503"}[name]) {
					t.Errorf("the answer is %v", r.Status)
				}
			})
		})
	}
}

// TestSlowReaderOfALongResponse has sent a part of its body only. While the handler writes, only the limits of writing count.
func TestSlowReaderOfALongResponse(t *testing.T) {
	const limit = time.Second
	for _, timed := range []time.Duration{Off, time.Hour} {
		for _, duplex := range []bool{false, true} {
			t.Run(fmt.Sprintf("HandlerTimeout %v, full duplex %v", timed, duplex), func(t *testing.T) {
				inBubbles(t, func(t *testing.T, secure bool) {
					l := httpsuite.Only(limit, "BodyTimeout", "BodyRate")
					l.HandlerTimeout = timed
					s := startInMemory(t, secure, l, func(w http.ResponseWriter, r *http.Request) {
						if duplex {
							http.NewResponseController(w).EnableFullDuplex()
						}
						r.Body.Read(make([]byte, 100))
						for range 10 {
							if _, err := w.Write(make([]byte, 40_000)); err != nil {
								t.Error(err)
							}
						}
					})
					c := s.Dial()
					c.Send(httpsuite.Post(10<<20) + strings.Repeat("x", 1000))
					r := c.Response()
					n := 0
					for {
						m, err := io.ReadFull(r.Body, make([]byte, 10_000))
						n += m
						if err != nil {
							if err != io.EOF {
								t.Error(err)
							}
							break
						}
						time.Sleep(limit)
					}
					if n != 400_000 {
						t.Error(n)
					}
					s.WantNone()
					c.Close()
				})
			})
		}
	}
}
