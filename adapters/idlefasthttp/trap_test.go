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
	c := bare(t, &fasthttp.Server{}, &p).dial(t)
	p.wants(t, "new", "active", "Read")
	c.get("/")
	p.wants(t, "new", "active", "Read", "header -2", "handler", "Write HTTP/1.1 200 OK", "idle", "Read")
	c.get("/")
	p.wants(t, "new", "active", "Read", "header -2", "handler", "Write HTTP/1.1 200 OK", "idle", "Read",
		"active", "header -2", "handler", "Write HTTP/1.1 200 OK", "idle", "Read")
	c.Close()
	eventually(t, "closed is the last", func() bool {
		seen := p.seen()
		return slices.Equal(seen[len(seen)-2:], []string{"Close", "closed"})
	})
}

// TestFasthttpReadsOneByteFirst, if it is to reduce memory usage, and tells
// Active after that.
func TestFasthttpReadsOneByteFirst(t *testing.T) {
	t.Parallel()
	var p spy
	c := bare(t, &fasthttp.Server{ReduceMemoryUsage: true}, &p).dial(t)
	p.wants(t, "new", "Read")
	c.get("/")
	first := []string{"new", "Read", "active", "Read", "header -2", "handler", "Write HTTP/1.1 200 OK", "idle", "Read"}
	p.wants(t, first...)
	c.get("/")
	p.wants(t, append(first, "active", "Read", "header -2", "handler", "Write HTTP/1.1 200 OK", "idle", "Read")...)
	c.Close()
}

// TestFasthttpSetsADeadlineForTheBody, when HeaderReceived returns one, before
// it reads on, and never takes it back.
func TestFasthttpSetsADeadlineForTheBody(t *testing.T) {
	t.Parallel()
	var p spy
	c := bare(t, &fasthttp.Server{HeaderReceived: func(*fasthttp.RequestHeader) fasthttp.RequestConfig {
		return fasthttp.RequestConfig{ReadTimeout: time.Hour}
	}}, &p).dial(t)
	c.send(post(3))
	p.wants(t, "new", "active", "Read", "header 3", "SetReadDeadline true", "Read")
	c.send("abc")
	if got := c.response(200); got != "/ 3" {
		t.Error(got)
	}
	p.wants(t, "new", "active", "Read", "header 3", "SetReadDeadline true", "Read", "handler", "Write HTTP/1.1 200 OK", "idle", "Read")
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
		c := bare(t, &fasthttp.Server{}, &p).dial(t)
		c.send("POST / HTTP/1.1\r\nHost: a\r\n" + header + "\r\n" + strings.Repeat("0\r\n\r\n", strings.Count(header, "chunked")))
		c.response(200)
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
	c := bare(t, &fasthttp.Server{}, &p).dial(t)
	c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
	b := make([]byte, 25)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "HTTP/1.1 100 Continue\r\n\r\n" {
		t.Fatalf("%q %v", b, err)
	}
	p.wants(t, "new", "active", "Read", "header 3", "Write HTTP/1.1 100 Continue", "Read")
	c.send("abc")
	c.response(200)
	c.Close()
}

// TestFasthttpPipelines: it tells Idle and Active of each request, but writes
// the responses together, unless it has to wait.
func TestFasthttpPipelines(t *testing.T) {
	t.Parallel()
	var p spy
	c := bare(t, &fasthttp.Server{}, &p).dial(t)
	const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	c.send(get + get + "GET")
	c.response(200)
	c.response(200)
	p.wants(t, "new", "active", "Read", "header -2", "handler", "idle", "active", "header -2", "handler", "idle",
		"active", "Write HTTP/1.1 200 OK", "Read")
	c.send(" / HTTP/1.1\r\nHost: a\r\n\r\n")
	c.response(200)
	c.Close()
}

// TestFasthttpAnswersWhatItCouldNotRead: after an error it writes a response,
// but for one that came while it waited for a next request. So the adapter's
// answer must be the last that can be written.
func TestFasthttpAnswersWhatItCouldNotRead(t *testing.T) {
	t.Parallel()
	timeout := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	var p spy
	p.fails = func(n int) error { return map[bool]error{true: timeout}[n == 1] }
	s := bare(t, &fasthttp.Server{}, &p)
	c := s.dial(t)
	c.response(408)
	p.wants(t, "new", "active", "Read", "Write HTTP/1.1 408 Request Timeout", "Close", "closed")
	var q spy
	q.fails = func(n int) error { return map[bool]error{true: timeout}[n == 2] }
	s2 := bare(t, &fasthttp.Server{}, &q)
	c = s2.dial(t)
	c.get("/")
	c.closed()
	if log := append(s.logged(), s2.logged()...); len(log) > 0 {
		t.Errorf("logged %q", log)
	}
}

// TestFasthttpDoesNotLogTimeouts, which it knows by "i/o timeout" in the text;
// it logs other errors.
func TestFasthttpDoesNotLogTimeouts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"i/o timeout: x": 0, "i/o time-out": 1} {
		p := spy{fails: func(int) error { return errors.New(text) }}
		s := bare(t, &fasthttp.Server{}, &p)
		s.dial(t).response(400)
		eventually(t, "it is closed", func() bool { return slices.Contains(p.seen(), "closed") })
		if log := s.logged(); len(log) != want {
			t.Errorf("%q: logged %q", text, log)
		}
	}
}

// TestFasthttpLogsTimeoutsOfTrailers: there it has an error of its own, without
// those words, whoever set the deadline.
func TestFasthttpLogsTimeoutsOfTrailers(t *testing.T) {
	t.Parallel()
	s := bare(t, &fasthttp.Server{HeaderReceived: func(*fasthttp.RequestHeader) fasthttp.RequestConfig {
		return fasthttp.RequestConfig{ReadTimeout: 100 * ms}
	}}, &spy{})
	c := s.dial(t)
	c.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
	c.response(400)
	eventually(t, "it is logged", func() bool { return len(s.logged()) == 1 })
	if log := s.logged()[0]; !strings.HasSuffix(log, "fasthttp: timeout") {
		t.Error(log)
	}
}

// TestFasthttpShakesHandsBeforeActive, and goes on as if nothing were when that
// has failed.
func TestFasthttpShakesHandsBeforeActive(t *testing.T) {
	t.Parallel()
	var p spy
	s := bare(t, &fasthttp.Server{TLSConfig: &tls.Config{}}, &p)
	nc := s.raw(t)
	p.wants(t, "new", "Read")
	nc.Close()
	eventually(t, "it is closed", func() bool { return slices.Contains(p.seen(), "closed") })
	if !slices.Contains(p.seen(), "active") {
		t.Errorf("%q", p.seen())
	}
}

// TestFasthttpTakesThePrefaceForARequest: HTTP/2 has to be told from HTTP/1 by
// more than that.
func TestFasthttpTakesThePrefaceForARequest(t *testing.T) {
	t.Parallel()
	var p spy
	c := bare(t, &fasthttp.Server{}, &p).dial(t)
	c.send("PRI * HTTP/2.0\r\nConnection: keep-alive\r\n\r\n")
	if got := c.response(200); got != "/* 0" {
		t.Error(got)
	}
	c.Close()
}
