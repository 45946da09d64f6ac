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
	// A handler may take as long as it likes, which is not the client's fault, whatever
	// came before it.
	{"LongHandler", everywhere, func(t *testing.T, u under) {
		const limit = 400 * ms
		to := All(limit)
		to.BodyRate = idle.Rate{BytesPerSecond: 1000, Grace: limit}
		to.WriteRate = to.BodyRate
		quick, long := Get("/"), Get("/long")
		for name, requests := range map[string][]string{
			"first":           {long},
			"second":          {quick, long},
			"one by one":      {long, quick, quick, quick, long},
			"after a body":    {PostTo("/long", 5) + "hello"},
			"after two":       {Post(5) + "hello", PostTo("/long", 5) + "hello"},
			"unread body":     {PostTo("/unread", 5) + "hello"},
			"body to come":    {"POST /unread HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 5\r\n\r\n"},
			"asked to come":   {"POST /unread HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"},
			"HTTP/1.0":        {"GET /long HTTP/1.0\r\n\r\n"},
			"chunked":         {strings.Replace(Chunked, "/", "/long", 1) + "2\r\nhi\r\n0\r\n\r\n"},
			"header in parts": {long[:7], long[7:]},
		} {
			toCome := strings.HasSuffix(name, "to come")
			if u.Rare > 0 && name != "one by one" && name != "after two" || toCome && !u.CallsEarly {
				continue
			}
			t.Run(name, func(t0 *testing.T) {
				t0.Parallel()
				t := intime.Of(t0, limit/4)
				s := u.start(t, to, func(r Request) {
					if r.Path() != "/unread" {
						io.Copy(io.Discard, r.Body())
					}
					if r.Path() != "/" {
						select {
						case <-r.Done():
							t.Error("the request is cancelled")
						case <-time.After(3 * limit):
						}
					}
					io.WriteString(r, "done")
				})
				c := s.Dial()
				for i, request := range requests {
					c.Send(request)
					if name == "header in parts" && i == 0 {
						time.Sleep(20 * ms)
						continue
					}
					if body := c.Want(http.StatusOK); body != "done" {
						t.Errorf("got %q", body)
					}
				}
				if !toCome {
					s.WantNone()
				}
			})
		}
	}},

	// The limit of handlers is one of requests, not of connections, nor of the wait between
	// two.
	{"HandlerTimeoutBeginsAnew", plain, func(t0 *testing.T, u under) {
		const limit = 800 * ms
		t := intime.Of(t0, limit/3)
		s := u.start(t, Only(limit, "HandlerTimeout"), func(r Request) { time.Sleep(limit / 3) })
		c := s.Dial()
		c.Send(strings.Repeat(Get("/"), 3)) // pipelined
		for range 3 {
			c.Want(http.StatusOK)
		}
		c.Get("/")
		time.Sleep(limit * 3 / 2)
		c.Get("/")
		s.WantNone()
	}},

	// A handler that is done just as its time is up gives its client one response or the
	// other, or none, but no mixture.
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
				want := map[int]int{http.StatusOK: 10_000, http.StatusServiceUnavailable: 19}[response.StatusCode]
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

	// Once the response has begun there is nothing to be said.
	{"HandlerTimeoutWithinTheResponse", usual, func(t *testing.T, u under) {
		inTime := intime.Of(t, limit/2) // the server, with the beginning
		ended := make(chan error, 1)
		s := u.start(t, Only(limit, "HandlerTimeout"), func(r Request) {
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
		begun := c.Send(Get("/"))
		response := c.Response()
		body, err := io.ReadAll(response.Body)
		if err == nil || !IsEnd(err) || response.StatusCode != http.StatusOK || strings.ReplaceAll(string(body), "more", "") != "" {
			inTime.Errorf("got %s, %q and %v, want what had been written, and an end before its time", response.Status, body, err)
		}
		NotBefore(t, time.Now(), begun, limit)
		if err := Receive(t, ended); err == nil {
			t.Error("the writer has not been told")
		}
		s.WantOnly(1, "request", idle.ReasonPhase)
	}},
}
