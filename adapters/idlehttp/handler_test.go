package idlehttp

import (
	"context"
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

// A handler may take as long as it likes, whatever came before it.
func TestLongHandler(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		limits := all(500 * ms)
		limits.BodyRate = idle.Rate{BytesPerSecond: 1000, Grace: 500 * ms}
		limits.WriteRate = limits.BodyRate
		quick, long := get("/"), get("/long")
		for name, requests := range map[string][]string{
			"first":           {long},
			"second":          {quick, long},
			"one by one":      {long, quick, long},
			"after a body":    {"POST /long HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhello"},
			"after two":       {post("5") + "hello", "POST /long HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhello"},
			"unread body":     {"POST /unread HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhello"},
			"body to come":    {"POST /unread HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 5\r\n\r\n"},
			"HTTP/1.0":        {"GET /long HTTP/1.0\r\n\r\n"},
			"chunked":         {"POST /long HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"},
			"header in parts": {long[:7], long[7:]},
		} {
			t.Run(name, func(t0 *testing.T) {
				t0.Parallel()
				t := intime.Of(t0, 100*ms)
				cancelled := make(chan bool, 9)
				s := start(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/unread" {
						io.Copy(io.Discard, r.Body)
					}
					if r.URL.Path != "/" {
						select {
						case <-r.Context().Done():
							cancelled <- true
						case <-time.After(3 * limits.BodyTimeout):
						}
					}
					io.WriteString(w, "done")
				})
				c := s.dial()
				for i, request := range requests {
					c.send(request)
					if name == "header in parts" && i == 0 {
						time.Sleep(20 * ms)
						continue
					}
					if body, _ := c.want(http.StatusOK); body != "done" {
						t.Errorf("got %q", body)
					}
				}
				if len(cancelled) > 0 {
					t.Error("the request's context is cancelled")
				}
				if name != "body to come" {
					s.wantNone()
				}
			})
		}
	})
}

// A request that takes too long is answered, and its handler learns of it; and
// so does one of a connection on which there was another before.
func TestHandlerTimeout(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		for name, before := range map[string]string{"first": "", "second": get("/"), "with a body": post("5") + "hello"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				limits := off()
				limits.HandlerTimeout = 400 * ms
				var long gate // or the request before it may take too long
				limits.OnTimeout = long.keep
				cancelled := make(chan error, 1)
				s := start(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					if r.URL.Path == "/long" {
						<-r.Context().Done()
						cancelled <- r.Context().Err()
						_, err := io.WriteString(w, "too late")
						_ = err // it is in a buffer, and goes nowhere
					}
				})
				c := s.dial()
				if before != "" {
					c.send(before)
					c.want(http.StatusOK)
				}
				long.open()
				begun := c.send(get("/long"))
				body, at := c.want(http.StatusServiceUnavailable)
				notBefore(t, at, begun, limits.HandlerTimeout)
				if body != "Service Unavailable" {
					t.Errorf("the answer's body is %q", body)
				}
				if err := receive(t, cancelled); err != context.Canceled {
					t.Errorf("the request's context: %v", err)
				}
				c.wantClosed()
				s.wantOnly(1, "request", idle.ReasonPhase)
			})
		}
	})
}

// The limit of handlers is one of requests, not of connections.
func TestHandlerTimeoutBeginsAnew(t0 *testing.T) {
	t0.Parallel()
	t := intime.Of(t0, 300*ms)
	limits := off()
	limits.HandlerTimeout = time.Second
	s := serve(t, limits, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(300 * ms)
	})
	c := s.dial()
	c.send(get("/") + get("/")) // pipelined
	for i := range 5 {
		if i > 1 {
			c.send(get("/"))
		}
		c.want(http.StatusOK)
	}
	time.Sleep(limits.HandlerTimeout * 3 / 2) // and not of the wait in between
	c.send(get("/"))
	c.want(http.StatusOK)
	s.wantNone()
}

// A handler that is done just as its time is up gives its client one response or
// the other, or none, but no mixture.
func TestAnswerMeetsResponse(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		limits := off()
		limits.HandlerTimeout = 200 * ms
		var n atomic.Int64
		s := start(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(limits.HandlerTimeout + time.Duration(n.Add(1))*ms)
			w.Write(make([]byte, 10_000))
		})
		var done sync.WaitGroup
		for range 40 {
			c := s.dial()
			done.Go(func() {
				io.WriteString(c, get("/"))
				response, err := http.ReadResponse(c.in, nil)
				if err != nil {
					if !isEnd(err) {
						t.Error(err)
					}
					return
				}
				b, err := io.ReadAll(response.Body)
				want := map[int]int{http.StatusOK: 10_000, http.StatusServiceUnavailable: 19}[response.StatusCode]
				if !isEnd(err) || err == nil && len(b) != want || strings.Contains(string(b), "HTTP/1.1") {
					t.Errorf("got %s and %d bytes, %v", response.Status, len(b), err)
				}
				if !response.Close {
					return
				}
				if rest, err := io.ReadAll(c.in); len(rest) > 0 || !isEnd(err) {
					t.Errorf("%d bytes follow, and %v", len(rest), err)
				}
			})
		}
		done.Wait()
	})
}

func TestHandlerTimeoutAfterTheResponseHasBegun(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		limits := off()
		limits.HandlerTimeout = 400 * ms
		s := start(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "begun")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		inTime := intime.Of(t, limits.HandlerTimeout/2) // the server, with the beginning
		c := s.dial()
		begun := c.send(get("/"))
		response, err := http.ReadResponse(c.in, nil)
		if err != nil {
			inTime.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		if string(got) != "begun" || err == nil || !isEnd(err) {
			inTime.Errorf("got %q and %v, want what had been written, and an end before its time", got, err)
		}
		notBefore(t, time.Now(), begun, limits.HandlerTimeout)
	})
}

// While a body is read the limit of handlers goes on.
func TestHandlerTimeoutWhileReading(t *testing.T) {
	t.Parallel()
	limits := off()
	limits.HandlerTimeout, limits.BodyTimeout = 500*ms, time.Minute
	read, ended := reader()
	s := serve(t, limits, read)
	c := s.dial()
	begun := c.send(post("1000"))
	defer c.trickle("01234567890123456789012345678901234567890123456789", 50*ms)()
	_, at := c.want(http.StatusServiceUnavailable)
	notBefore(t, at, begun, limits.HandlerTimeout)
	wantTimeout(t, receive(t, ended), "request", idle.ReasonPhase)
}
