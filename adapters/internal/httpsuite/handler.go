package httpsuite

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

var ofHandlers = []promise{

	// If a handler returns just as HandlerTimeout passes, the client gets the handler's response,
	// the 503 or none, but never a mixture.
	{"AnswerMeetsResponse", usual, func(t *testing.T, u under) {
		var n atomic.Int64
		s := u.start(t, Only(limit, "HandlerTimeout"), func(r Request) {
			time.Sleep(limit + time.Duration(n.Add(1))*ms)
			r.Write(Large[:10_000])
		})
		var done sync.WaitGroup
		for range 40 {
			c := s.Dial()
			done.Go(func() {
				io.WriteString(c, Get("/"))
				response, err := http.ReadResponse(c.In, nil)
				if err != nil {
					if !IsEnd(err) {
						t.Error(err)
					}
					return
				}
				b, err := io.ReadAll(response.Body)
				want := map[int]int{http.StatusOK: 10_000, http.StatusServiceUnavailable: 0}[response.StatusCode]
				if !IsEnd(err) || err == nil && len(b) != want || strings.Contains(string(b), "HTTP/1.1") {
					t.Errorf("got %s and %d bytes, %v", response.Status, len(b), err)
				}
				if response.Close {
					c.WantClosed()
				}
			})
		}
		done.Wait()
	}},

	// After the response has begun, there's no 503: the connection just ends. That holds behind 100
	// Continue too, which doesn't begin the response.
	{"HandlerTimeoutWithinTheResponse", usual, func(t *testing.T, u under) {
		for name, request := range map[string]string{"get": Get("/"), "expect": expecting} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				inTime := intime.Of(t, limit/2) // for the server to begin the response
				ended := make(chan error, 1)
				s := u.start(t, Only(limit, "HandlerTimeout"), func(r Request) {
					io.Copy(io.Discard, r.Body())
					r.Stream(func(w io.Writer, flush func() error) {
						var err error
						for begun := time.Now(); err == nil && time.Since(begun) < Patience; time.Sleep(20 * ms) {
							io.WriteString(w, "more")
							err = flush()
						}
						ended <- err
					})
				})
				c := s.Dial()
				c.T = inTime
				begun := c.Send(request)
				response := c.Response()
				if response.StatusCode == http.StatusContinue {
					c.Send("0123456789")
					response = c.Response()
				}
				body, err := io.ReadAll(response.Body)
				if err == nil || !IsEnd(err) || response.StatusCode != http.StatusOK || strings.ReplaceAll(string(body), "more", "") != "" {
					inTime.Fatalf("got %s, %q and %v, want what had been written, and an end before its time", response.Status, body, err)
				}
				NotBefore(t, time.Now(), begun, limit)
				if err := Receive(t, ended); err == nil {
					t.Error("the writer has not been told")
				}
				s.WantOnly(1, "request", idle.ReasonPhase)
			})
		}
	}},
}
