//go:build proof

package idlefasthttp

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// TestFasthttpDoes what the adapter relies on, or has to work around, as clients send one
// thing after the other. It is about fasthttp alone. If it fails with a new version of
// fasthttp, look there.
func TestFasthttpDoes(t *testing.T) {
	const (
		get    = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
		answer = "handler, write HTTP/1.1 200 OK, idle, read"
	)
	type step struct {
		sends     string
		responses int
		does      string // from then on
	}
	anHour := func(*fasthttp.RequestHeader) fasthttp.RequestConfig {
		return fasthttp.RequestConfig{ReadTimeout: time.Hour}
	}
	for name, test := range map[string]struct {
		server *fasthttp.Server
		steps  []step
	}{
		// Active comes when the first byte of a request has arrived. No deadline is set by itself,
		// and Idle comes when the response has been written.
		"GET": {&fasthttp.Server{}, []step{
			{"", 0, "new, read"},
			{get, 1, "active, header -2, " + answer},
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
			{httpsuite.Post(3), 0, "new, read, active, header 3, read deadline to come, read"},
			{"abc", 1, answer},
		}},
		// -2 stands for a request that says nothing of a body, and so has none; -1 for a chunked
		// one.
		"no length": {&fasthttp.Server{}, []step{{"POST / HTTP/1.1\r\nHost: a\r\n\r\n", 1, "new, read, active, header -2, " + answer}}},
		"length 0":  {&fasthttp.Server{}, []step{{httpsuite.Post(0), 1, "new, read, active, header 0, " + answer}}},
		"chunked":   {&fasthttp.Server{}, []step{{httpsuite.Chunked + "0\r\n\r\n", 1, "new, read, active, header -1, " + answer}}},
		// By these bytes, written alone, the adapter knows that the response has not begun.
		"continue": {&fasthttp.Server{}, []step{
			{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n", 0,
				"new, read, active, header 3, write HTTP/1.1 100 Continue alone, read"},
			{"abc", 2, answer},
		}},
		// It tells Idle and Active of each request, but writes the responses together, unless it
		// has to wait.
		"pipeline": {&fasthttp.Server{}, []step{
			{get + get + "GET", 2, "new, read, active, header -2, handler, idle, active, header -2, handler, idle, active, write HTTP/1.1 200 OK, read"},
			{" / HTTP/1.1\r\nHost: a\r\n\r\n", 1, "header -2, " + answer},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d httpsuite.Diary
			c := bare(t, test.server, &d).Dial()
			for _, step := range test.steps {
				d.Does(c, step.sends, step.responses, step.does)
			}
			d.Ends(c)
		})
	}
}

// bare serves f as it is, until the test ends. The diary notes what it does, its calls of
// hooks among that.
func bare(t testing.TB, f *fasthttp.Server, d *httpsuite.Diary) *httpsuite.Site {
	t.Helper()
	header := f.HeaderReceived
	f.Handler = func(ctx *fasthttp.RequestCtx) {
		d.Note("handler")
		hello(ctx)
	}
	f.ConnState = func(_ net.Conn, to fasthttp.ConnState) { d.Note("%v", to) }
	f.HeaderReceived = func(h *fasthttp.RequestHeader) (c fasthttp.RequestConfig) {
		d.Note("header %d", h.ContentLength())
		if header != nil {
			c = header(h)
		}
		return c
	}
	return httpsuite.Start(t, false, func(log io.Writer, idle func()) (httpsuite.Setup, error) {
		return httpsuite.FastHTTP(f, d.Spy(httpsuite.Listen(t)), false, log, idle), nil
	})
}
