package idlefasthttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// large is a response that does not fit into the kernel's buffers.
var large = func() []byte {
	b := make([]byte, 32<<20)
	rng := rand.NewChaCha8([32]byte{1})
	rng.Read(b)
	return b
}()

func sendLarge(ctx *fasthttp.RequestCtx) { ctx.Response.SetBodyRaw(large) }

// ask sends a request to s on a connection that takes little at a time.
func ask(t testing.TB, s *server, path string) *client {
	t.Helper()
	c := s.dial(t)
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		tcp.SetReadBuffer(64 << 10)
	}
	c.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
	return c
}

// truncated checks that c gets a response that ends before its end, by a reset:
// else the kernel would keep what c does not take.
func truncated(c *client) {
	c.t.Helper()
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, res.Body)
	if err == nil || n >= int64(len(large)) {
		c.t.Errorf("got all of %d bytes, %v", n, err)
	}
	if runtime.GOOS == "linux" && !errors.Is(err, syscall.ECONNRESET) {
		c.t.Errorf("after %d bytes it ended by %v", n, err)
	}
}

// TestReaderThatStops takes the header of a response, perhaps, and nothing more.
func TestReaderThatStops(t *testing.T) {
	t.Parallel()
	flavours(t, func(t *testing.T, start func(*fasthttp.Server, Timeouts) *server) {
		to := limits()
		to.WriteTimeout = limit
		s := start(&fasthttp.Server{Handler: sendLarge}, to)
		begun := time.Now()
		c := ask(t, s, "/")
		eventually(t, "it times out", func() bool { return s.Stats().TimedOut[idle.ReasonWrite] == 1 })
		notBefore(t, time.Now(), begun, limit)
		truncated(c)
	})
}

// TestPhaseOfAResponse: one that is not taken belongs to a request, whatever was
// waited for last.
func TestPhaseOfAResponse(t *testing.T) {
	t.Parallel()
	for name, before := range map[string][]string{
		"first": {""}, "header": {"GET "}, "keep-alive": {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := limits()
			to.WriteTimeout = limit
			phase := make(chan string, 1)
			to.OnTimeout = onTimeout(func(err *idle.TimeoutError) bool { phase <- err.Phase; return false })
			s := start(t, &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
				if string(ctx.Path()) == "/large" {
					sendLarge(ctx)
				}
			}}, to)
			c := s.dial(t)
			c.Conn.(*net.TCPConn).SetReadBuffer(64 << 10)
			text := "GET /large HTTP/1.1\r\nHost: a\r\n\r\n"
			for _, part := range before {
				c.send(part)
				if len(part) > 10 {
					c.response(200)
				} else {
					time.Sleep(100 * ms)
					text = text[len(part):]
				}
			}
			c.send(text)
			if got := receive(t, phase); got != "request" {
				t.Errorf("the phase was %q", got)
			}
			s.wantPhase(t, "request")
		})
	}
}

// TestReaderThatSips takes a little now and then, which is progress, but less
// than the least speed.
func TestReaderThatSips(t *testing.T) {
	t.Parallel()
	to := limits()
	to.WriteRate = idle.Rate{BytesPerSecond: 4 << 20, Grace: limit}
	s := start(t, &fasthttp.Server{Handler: sendLarge}, to)
	begun := time.Now()
	c := ask(t, s, "/")
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		for s.Stats().TimedOut[idle.ReasonMinWriteRate] == 0 && time.Since(begun) < patience {
			io.CopyN(io.Discard, c, 4<<10)
			time.Sleep(20 * ms)
		}
	}()
	receive(t, stop)
	notBefore(t, time.Now(), begun, limit)
	if n := s.Stats().TimedOut[idle.ReasonMinWriteRate]; n != 1 {
		t.Errorf("%+v", s.Stats())
	}
}

// sip reads a response slowly: for many times the limits, but fast enough. It
// returns the longest time for which it did not get to read.
func sip(t testing.TB, c *client, size int64) (body []byte, longest time.Duration, err error) {
	t.Helper()
	res, err := http.ReadResponse(c.in, nil)
	if err != nil || res.ContentLength != size {
		t.Fatal(err, res)
	}
	var got bytes.Buffer
	begun, last := time.Now(), time.Now()
	part := int64(128 << 10)
	if testing.Short() {
		part *= 2
	}
	for {
		n, err := io.CopyN(&got, res.Body, part)
		longest, last = max(longest, time.Since(last)), time.Now()
		if n < part {
			return got.Bytes(), longest, fmt.Errorf("%w after %d bytes in %v", err, got.Len(), time.Since(begun))
		}
		time.Sleep(20 * ms) // so at most 6.4 MB a second
	}
}

// TestSlowButLivingReader is never cut: not of a response that is written, nor
// of a file that the kernel sends.
func TestSlowButLivingReader(t *testing.T) {
	t.Parallel()
	const limit = 1500 * ms // with a small window, TCP itself pauses for 300 ms
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "large"), large, 0o600); err != nil {
		t.Fatal(err)
	}
	files := (&fasthttp.FS{Root: dir, SkipCache: true}).NewRequestHandler()
	for name, handler := range map[string]fasthttp.RequestHandler{
		"written": sendLarge,
		"file":    files,
		"stream":  func(ctx *fasthttp.RequestCtx) { ctx.SetBodyStream(bytes.NewReader(large), len(large)) },
	} {
		t.Run(name, func(t0 *testing.T) {
			t0.Parallel()
			t := intime.Of(t0, limit/4)
			to := limits()
			to.HandshakeTimeout, to.HeaderTimeout, to.BodyTimeout = limit, limit, limit
			to.WriteTimeout, to.WriteRate = limit, idle.Rate{BytesPerSecond: 1 << 20, Grace: limit}
			s := start(t, &fasthttp.Server{Handler: handler}, to)
			body, longest, err := sip(t, ask(t, s, "/large"), int64(len(large)))
			if !errors.Is(err, io.EOF) || !bytes.Equal(body, large) {
				t.Errorf("%v; it never waited for more than %v", err, longest)
			}
			s.noTimeout(t)
		})
	}
}

// TestFileToReaderThatStops is cut even if the kernel sends.
func TestFileToReaderThatStops(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "large"), large, 0o600); err != nil {
		t.Fatal(err)
	}
	to := limits()
	to.WriteTimeout = limit
	s := start(t, &fasthttp.Server{Handler: (&fasthttp.FS{Root: dir, SkipCache: true}).NewRequestHandler()}, to)
	c := ask(t, s, "/large")
	eventually(t, "it times out", func() bool { return s.Stats().TimedOut[idle.ReasonWrite] == 1 })
	truncated(c)
}

// TestConnCanSendFiles: fasthttp finds a ReadFrom on the connection, without
// which a file would be copied through user space.
func TestConnCanSendFiles(t *testing.T) {
	t.Parallel()
	got := make(chan bool, 1)
	s := start(t, &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		_, ok := ctx.Conn().(io.ReaderFrom)
		got <- ok
	}}, limits())
	s.dial(t).get("/")
	if !receive(t, got) {
		t.Error("the connection has no ReadFrom")
	}
}
