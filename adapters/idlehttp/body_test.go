package idlehttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// reader is a handler that reads the body, and tells how that ended.
func reader() (http.HandlerFunc, chan error) {
	ended := make(chan error, 10)
	return func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		ended <- err
		fmt.Fprint(w, len(b)) // nobody gets this if it is too late
	}, ended
}

func TestBodyStops(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		for name, request := range map[string]string{
			"before it begins": post("10"),
			"half way":         post("10") + "hello",
			"between chunks":   "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
			"within a trailer": "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				limits := off()
				limits.BodyTimeout = 300 * ms
				read, ended := reader()
				s := start(t, secure, limits, read)
				c := s.dial()
				c.send(get("/")) // in a later request all is as in the first
				c.want(http.StatusOK)
				receive(t, ended)
				begun := c.send(request)
				_, at := c.want(http.StatusRequestTimeout)
				notBefore(t, at, begun, limits.BodyTimeout)
				if err := receive(t, ended); name == "within a trailer" { // net/http has an error of its own
					if err == nil {
						t.Error("the body is complete")
					}
				} else {
					wantTimeout(t, err, "request", idle.ReasonRead)
				}
				c.wantClosed()
				s.wantOnly(1, "request", idle.ReasonRead)
			})
		}
	})
}

// Bytes that trickle buy time at the rate, and no more.
func TestBodyBelowTheRate(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		limits := off()
		limits.BodyTimeout = time.Minute
		limits.BodyRate = idle.Rate{BytesPerSecond: 10_000, Grace: 300 * ms} // a byte is 23 with TLS
		read, ended := reader()
		s := start(t, secure, limits, read)
		c := s.dial()
		begun := c.send(post("1000"))
		stop := c.trickle(strings.Repeat("x", 1000), 20*ms)
		defer stop()
		_, at := c.want(http.StatusRequestTimeout)
		notBefore(t, at, begun, limits.BodyRate.Grace)
		wantTimeout(t, receive(t, ended), "request", idle.ReasonMinReadRate)
		s.wantOnly(1, "request", idle.ReasonMinReadRate)
	})
}

// A slow body that is above the rate lives, however long it takes.
func TestBodyAboveTheRate(t *testing.T) {
	both(t, func(t0 *testing.T, secure bool) {
		t := intime.Of(t0, 300*ms)
		limits := off()
		limits.BodyTimeout = time.Second
		limits.BodyRate = idle.Rate{BytesPerSecond: 20, Grace: time.Second}
		s := start(t, secure, limits, echo)
		c := s.dial()
		const steps = 40
		c.send(post(fmt.Sprint(steps * 10)))
		for range steps {
			time.Sleep(50 * ms)
			c.send("0123456789")
		}
		if body, _ := c.want(http.StatusOK); len(body) != steps*10 {
			t.Errorf("%d bytes came back", len(body))
		}
		s.wantNone()
	})
}

func TestChunkedUpload(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		limits := all(patience)
		limits.BodyRate = idle.Rate{BytesPerSecond: 20, Grace: patience}
		s := start(t, secure, limits, echo)
		c := s.dial()
		for range 2 {
			c.send("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
			for range 8 {
				time.Sleep(40 * ms)
				c.send("a\r\n0123456789\r\n")
			}
			c.send("0\r\n\r\n")
			if body, _ := c.want(http.StatusOK); len(body) != 80 {
				t.Errorf("%d bytes came back", len(body))
			}
		}
		s.wantNone()
	})
}

// Time in which the handler does not read is no offence of the client's, whether
// its bytes are there already or not.
func TestHandlerPausesReading(t *testing.T) {
	both(t, func(t0 *testing.T, secure bool) {
		t := intime.Of(t0, 100*ms)
		limits := all(500 * ms)
		limits.BodyRate = idle.Rate{BytesPerSecond: 1000, Grace: 400 * ms}
		paused := make(chan error, 3)
		s := start(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			b := make([]byte, 5)
			for range 3 {
				if _, err := io.ReadFull(r.Body, b); err != nil {
					paused <- err
					return
				}
				time.Sleep(2 * limits.BodyTimeout)
				paused <- nil
			}
			w.Write(b)
		})
		c := s.dial()
		c.send(post("15"))
		for range 3 {
			c.send("hello")
			if err := receive(t, paused); err != nil {
				t.Fatal("reading after a pause: ", err)
			}
		}
		c.want(http.StatusOK)
		s.wantNone()
	})
}

// A handler that does not want the body leaves it to the server, which reads
// it before it sends what the handler has written, within the same limits.
func TestBodyThatNobodyWanted(t *testing.T) {
	t.Parallel()
	limits := off()
	limits.BodyTimeout = 300 * ms
	s := serve(t, limits, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "no") })
	c := s.dial()
	begun := c.send(post("10") + "hello")
	c.want(http.StatusRequestTimeout)
	notBefore(t, c.wantClosed(), begun, limits.BodyTimeout)
	s.wantOnly(1, "request", idle.ReasonRead)
}

// Every timeout that is answered has one outcome: it is counted as what it was,
// and the handler gets the error that says so.
func TestAnsweredTimeoutIsOne(t *testing.T) {
	t.Parallel()
	const clients = 100
	limits := off()
	limits.BodyTimeout = 300 * ms
	ended := make(chan error, clients)
	s := serve(t, limits, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		ended <- err
	})
	for range clients {
		s.dial().send(post("10") + "hello")
	}
	for range clients {
		if err := receive(t, ended); !errors.As(err, new(*idle.TimeoutError)) {
			t.Errorf("a handler got %v", err)
		}
	}
	if st := s.settled(); st.TimedOut[idle.ReasonRead] != clients || st.Gone > 0 {
		t.Errorf("%+v", st)
	}
}

func TestNoAnswerOnceTheResponseHasBegun(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		limits := off()
		limits.BodyTimeout = 300 * ms
		ended := make(chan error, 1)
		s := start(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			if err := rc.EnableFullDuplex(); err != nil {
				t.Error(err)
			}
			io.WriteString(w, "begun")
			rc.Flush()
			_, err := io.ReadAll(r.Body)
			ended <- err
		})
		c := s.dial()
		begun := c.send(post("10") + "hello")
		response, err := http.ReadResponse(c.in, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		if string(got) != "begun" || !isEnd(err) || err == nil {
			t.Errorf("got %q and %v, want what had been written, and an end before its time", got, err)
		}
		notBefore(t, time.Now(), begun, limits.BodyTimeout)
		wantTimeout(t, receive(t, ended), "request", idle.ReasonRead)
	})
}

// Who asks whether to go on, and is told to, has the body's limits; without TLS
// an interim answer does not stand in the way of a 408.
func TestExpectContinue(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		const request = "POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"
		limits := off()
		limits.BodyTimeout = 400 * ms
		read, ended := reader()
		s := start(t, secure, limits, read)
		inTime := intime.Of(t, limits.BodyTimeout/4)
		c := s.dial()
		c.t = inTime
		goOn := func() {
			t.Helper()
			if line, err := c.in.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
				t.Fatalf("got %q, %v", line, err)
			}
			c.in.ReadString('\n')
		}

		c.send(request)
		goOn()
		for range 2 {
			time.Sleep(limits.BodyTimeout / 4)
			c.send("hello")
		}
		if err := receive(t, ended); err != nil {
			inTime.Fatal(err)
		}
		c.want(http.StatusOK)
		c.t = t

		begun := c.send(request)
		goOn()
		if !secure {
			c.want(http.StatusRequestTimeout)
		}
		notBefore(t, c.wantClosed(), begun, limits.BodyTimeout)
		wantTimeout(t, receive(t, ended), "request", idle.ReasonRead)
	})
}

// Nobody asks for the body, so that nobody waits for it.
func TestExpectContinueOfAHandlerThatDoesNotRead(t0 *testing.T) {
	t0.Parallel()
	t := intime.Of(t0, 100*ms)
	limits := all(500 * ms)
	s := serve(t, limits, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(3 * limits.BodyTimeout)
		w.WriteHeader(http.StatusForbidden)
	})
	c := s.dial()
	c.send("POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n")
	c.want(http.StatusForbidden)
	s.wantNone()
}

// A handler's own read deadline takes the place of the body's limits, and one
// that is zero lifts them; for this request, not for the next.
func TestHandlersOwnReadDeadline(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		limits := off()
		limits.BodyTimeout = 300 * ms
		limits.BodyRate = idle.Rate{BytesPerSecond: 1000, Grace: 300 * ms}
		ended := make(chan error, 1)
		s := start(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			switch r.Header.Get("Deadline") {
			case "zero":
				if err := rc.SetReadDeadline(time.Time{}); err != nil {
					t.Error(err)
				}
			case "own":
				rc.SetReadDeadline(time.Now().Add(3 * limits.BodyTimeout))
			}
			_, err := io.ReadAll(r.Body)
			ended <- err
		})
		header := func(deadline string) string {
			return "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\nDeadline: " + deadline + "\r\n\r\nhello"
		}

		c := s.dial()
		c.send(header("zero"))
		time.Sleep(3 * limits.BodyTimeout)
		c.send("hello")
		if err := receive(t, ended); err != nil {
			t.Errorf("without a deadline: %v", err)
		}
		c.want(http.StatusOK)
		s.wantNone()

		begun := c.send(header("none")) // the limits are back
		c.want(http.StatusRequestTimeout)
		notBefore(t, time.Now(), begun, limits.BodyTimeout)
		err := receive(t, ended)
		var timeout *idle.TimeoutError
		if !errors.As(err, &timeout) {
			t.Errorf("in the next request: %v", err)
		}

		c = s.dial()
		begun = c.send(header("own"))
		err = receive(t, ended)
		notBefore(t, time.Now(), begun, 3*limits.BodyTimeout)
		if !errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, new(*idle.TimeoutError)) {
			t.Errorf("with a deadline of its own: %v", err)
		}
	})
}
