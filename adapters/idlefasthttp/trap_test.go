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

// TestFasthttpTellsActiveBeforeTheFirstByte, but only of the first request: of
// others it tells when a byte has arrived. No deadline is set by itself, and
// Idle comes when the response has been written.
func TestFasthttpTellsActiveBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	var p spy
	c := bare(t, &fasthttp.Server{}, &p).Dial()
	p.wants(t, "new", "active", "read")
	c.Get("/")
	p.wants(t, "new", "active", "read", "header -2", "handler", "write HTTP/1.1 200 OK", "idle", "read")
	c.Get("/")
	p.wants(t, "new", "active", "read", "header -2", "handler", "write HTTP/1.1 200 OK", "idle", "read",
		"active", "header -2", "handler", "write HTTP/1.1 200 OK", "idle", "read")
	c.Close()
	httpsuite.Eventually(t, "closed is the last", func() bool {
		seen := p.seen()
		return slices.Equal(seen[len(seen)-2:], []string{"close", "closed"})
	})
}

// TestFasthttpReadsOneByteFirst, if it is to reduce memory usage, and tells
// Active after that.
func TestFasthttpReadsOneByteFirst(t *testing.T) {
	t.Parallel()
	var p spy
	c := bare(t, &fasthttp.Server{ReduceMemoryUsage: true}, &p).Dial()
	p.wants(t, "new", "read")
	c.Get("/")
	first := []string{"new", "read", "active", "read", "header -2", "handler", "write HTTP/1.1 200 OK", "idle", "read"}
	p.wants(t, first...)
	c.Get("/")
	p.wants(t, append(first, "active", "read", "header -2", "handler", "write HTTP/1.1 200 OK", "idle", "read")...)
	c.Close()
}

// TestFasthttpSetsADeadlineForTheBody, when HeaderReceived returns one, before
// it reads on, and never takes it back.
func TestFasthttpSetsADeadlineForTheBody(t *testing.T) {
	t.Parallel()
	var p spy
	c := bare(t, &fasthttp.Server{HeaderReceived: func(*fasthttp.RequestHeader) fasthttp.RequestConfig {
		return fasthttp.RequestConfig{ReadTimeout: time.Hour}
	}}, &p).Dial()
	c.Send(httpsuite.Post(3))
	p.wants(t, "new", "active", "read", "header 3", "read deadline to come", "read")
	c.Send("abc")
	if got := c.Want(200); got != "/ 3" {
		t.Error(got)
	}
	p.wants(t, "new", "active", "read", "header 3", "read deadline to come", "read", "handler", "write HTTP/1.1 200 OK", "idle", "read")
	c.Close()
}

// TestFasthttpContentLength: -2 stands for a request that says nothing of a
// body, and so has none; -1 for a chunked one.
func TestFasthttpContentLength(t *testing.T) {
	t.Parallel()
	for want, header := range map[string]string{
		"header -2": "", "header 0": "Content-Length: 0\r\n", "header -1": "Transfer-Encoding: chunked\r\n",
	} {
		var p spy
		c := bare(t, &fasthttp.Server{}, &p).Dial()
		c.Send("POST / HTTP/1.1\r\nHost: a\r\n" + header + "\r\n" + strings.Repeat("0\r\n\r\n", strings.Count(header, "chunked")))
		c.Want(200)
		if !slices.Contains(p.seen(), want) {
			t.Errorf("%q: %q", header, p.seen())
		}
		c.Close()
	}
}

// TestFasthttpWritesContinueByItself: by these bytes the adapter knows that the
// response has not begun.
func TestFasthttpWritesContinueByItself(t *testing.T) {
	t.Parallel()
	var p spy
	c := bare(t, &fasthttp.Server{}, &p).Dial()
	c.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
	b := make([]byte, 25)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "HTTP/1.1 100 Continue\r\n\r\n" {
		t.Fatalf("%q %v", b, err)
	}
	p.wants(t, "new", "active", "read", "header 3", "write HTTP/1.1 100 Continue alone", "read")
	c.Send("abc")
	c.Want(200)
	c.Close()
}

// TestFasthttpPipelines: it tells Idle and Active of each request, but writes
// the responses together, unless it has to wait.
func TestFasthttpPipelines(t *testing.T) {
	t.Parallel()
	var p spy
	c := bare(t, &fasthttp.Server{}, &p).Dial()
	const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	c.Send(get + get + "GET")
	c.Want(200)
	c.Want(200)
	p.wants(t, "new", "active", "read", "header -2", "handler", "idle", "active", "header -2", "handler", "idle",
		"active", "write HTTP/1.1 200 OK", "read")
	c.Send(" / HTTP/1.1\r\nHost: a\r\n\r\n")
	c.Want(200)
	c.Close()
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

// TestFasthttpTakesThePrefaceForARequest: HTTP/2 has to be told from HTTP/1 by
// more than that.
func TestFasthttpTakesThePrefaceForARequest(t *testing.T) {
	t.Parallel()
	var p spy
	c := bare(t, &fasthttp.Server{}, &p).Dial()
	c.Send("PRI * HTTP/2.0\r\nConnection: keep-alive\r\n\r\n")
	if got := c.Want(200); got != "/* 0" {
		t.Error(got)
	}
	c.Close()
}
