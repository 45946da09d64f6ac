package idlefasthttp

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// The tests of this file, and of trap_conns_test.go, are about fasthttp alone:
// what the adapter relies on, or has to work around. If one fails with a new
// version of fasthttp, look there.

// TestFasthttpDoes what the adapter relies on, or has to work around, as clients send one
// thing after the other.
func TestFasthttpDoes(t *testing.T) {
	const (
		get    = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
		answer = "handler, write HTTP/1.1 200 OK, idle, read"
	)
	type step struct {
		sends   string
		answers int
		does    string // from then on
	}
	anHour := func(*fasthttp.RequestHeader) fasthttp.RequestConfig {
		return fasthttp.RequestConfig{ReadTimeout: time.Hour}
	}
	for name, test := range map[string]struct {
		server *fasthttp.Server
		steps  []step
	}{
		// Active comes before the first byte of the first request. Of others it comes when a
		// byte has arrived. No deadline is set by itself, and Idle comes when the response has
		// been written.
		"GET": {&fasthttp.Server{}, []step{
			{"", 0, "new, active, read"},
			{get, 1, "header -2, " + answer},
			{get, 1, "active, header -2, " + answer},
		}},
		// It reads one byte first, if it is to reduce memory usage, and tells Active after that.
		"reduced": {&fasthttp.Server{ReduceMemoryUsage: true}, []step{
			{"", 0, "new, read"},
			{get, 1, "active, read, header -2, " + answer},
			{get, 1, "active, read, header -2, " + answer},
		}},
		// A deadline for the body is set before it reads on, if HeaderReceived returns one, and
		// never taken back.
		"deadline": {&fasthttp.Server{HeaderReceived: anHour}, []step{
			{httpsuite.Post(3), 0, "new, active, read, header 3, read deadline to come, read"},
			{"abc", 1, answer},
		}},
		// -2 stands for a request that says nothing of a body, and so has none; -1 for a chunked
		// one.
		"no length": {&fasthttp.Server{}, []step{{"POST / HTTP/1.1\r\nHost: a\r\n\r\n", 1, "new, active, read, header -2, " + answer}}},
		"length 0":  {&fasthttp.Server{}, []step{{httpsuite.Post(0), 1, "new, active, read, header 0, " + answer}}},
		"chunked":   {&fasthttp.Server{}, []step{{httpsuite.Chunked + "0\r\n\r\n", 1, "new, active, read, header -1, " + answer}}},
		// By these bytes, written alone, the adapter knows that the response has not begun.
		"continue": {&fasthttp.Server{}, []step{
			{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n", 0,
				"new, active, read, header 3, write HTTP/1.1 100 Continue alone, read"},
			{"abc", 2, answer},
		}},
		// It tells Idle and Active of each request, but writes the responses together, unless it
		// has to wait.
		"pipeline": {&fasthttp.Server{}, []step{
			{get + get + "GET", 2, "new, active, read, header -2, handler, idle, active, header -2, handler, idle, active, write HTTP/1.1 200 OK, read"},
			{" / HTTP/1.1\r\nHost: a\r\n\r\n", 1, "header -2, " + answer},
		}},
		// HTTP/2 has to be told from HTTP/1 by more than its preface, which is a request.
		"PRI": {&fasthttp.Server{}, []step{{"PRI * HTTP/2.0\r\nConnection: keep-alive\r\n\r\n", 1, "new, active, read, header -2, " + answer}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p spy
			c := bare(t, test.server, &p).Dial()
			var all []string
			for _, step := range test.steps {
				c.Send(step.sends)
				for range step.answers {
					if response := c.Response(); response.StatusCode >= 300 {
						t.Errorf("got %s", response.Status)
					} else if _, err := io.Copy(io.Discard, response.Body); err != nil {
						t.Error(err)
					}
				}
				all = append(all, step.does)
				p.wants(t, all...)
			}
			c.Close()
			httpsuite.Eventually(t, "closed is the last", func() bool { return strings.HasSuffix(p.Text("read: "), ", close, closed") })
		})
	}
}

// TestFasthttpAnswersWhatItCouldNotRead: after an error it writes a response,
// but for one that came while it waited for a next request. So the adapter's
// answer must be the last that can be written.
func TestFasthttpAnswersWhatItCouldNotRead(t *testing.T) {
	t.Parallel()
	timeout := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	var p spy
	p.Fails = func(n int) error { return map[bool]error{true: timeout}[n == 1] }
	s := bare(t, &fasthttp.Server{}, &p)
	c := s.Dial()
	c.Want(408)
	p.wants(t, "new", "active", "read", "write HTTP/1.1 408 Request Timeout", "close", "closed")
	var q spy
	q.Fails = func(n int) error { return map[bool]error{true: timeout}[n == 2] }
	s2 := bare(t, &fasthttp.Server{}, &q)
	c = s2.Dial()
	c.Get("/")
	c.WantClosed()
	if log := p.log.Text() + q.log.Text(); log != "" {
		t.Errorf("logged %q", log)
	}
}

// TestFasthttpDoesNotLogTimeouts, which it knows by "i/o timeout" in the text;
// it logs other errors.
func TestFasthttpDoesNotLogTimeouts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"i/o timeout: x": 0, "i/o time-out": 1} {
		var p spy
		p.Fails = func(int) error { return errors.New(text) }
		s := bare(t, &fasthttp.Server{}, &p)
		s.Dial().Want(400)
		httpsuite.Eventually(t, "it is closed", func() bool { return slices.Contains(p.seen(), "closed") })
		if log := p.log.Text(); strings.Count(log, "\n") != want {
			t.Errorf("%q: logged %q", text, log)
		}
	}
}

// TestFasthttpLogsTimeoutsOfTrailers: there it has an error of its own, without
// those words, whoever set the deadline.
func TestFasthttpLogsTimeoutsOfTrailers(t *testing.T) {
	t.Parallel()
	var p spy
	c := bare(t, &fasthttp.Server{HeaderReceived: func(*fasthttp.RequestHeader) fasthttp.RequestConfig {
		return fasthttp.RequestConfig{ReadTimeout: 100 * ms}
	}}, &p).Dial()
	c.Send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
	c.Want(400)
	httpsuite.Eventually(t, "it is logged", func() bool { return strings.HasSuffix(p.log.Text(), "fasthttp: timeout\n") })
}

// TestFasthttpShakesHandsBeforeActive, and goes on as if nothing were when that
// has failed.
func TestFasthttpShakesHandsBeforeActive(t *testing.T) {
	t.Parallel()
	var p spy
	s := bare(t, &fasthttp.Server{TLSConfig: &tls.Config{}}, &p)
	nc := s.DialBare()
	p.wants(t, "new", "read")
	nc.Close()
	httpsuite.Eventually(t, "it is closed", func() bool { return slices.Contains(p.seen(), "closed") })
	if !slices.Contains(p.seen(), "active") {
		t.Errorf("%q", p.seen())
	}
}
