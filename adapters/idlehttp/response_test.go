package idlehttp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// large is more than the kernel's buffers of a loopback connection hold.
const large = 16 << 20

// narrow has a client take in little at a time.
func (c *client) narrow() { c.t.Helper(); c.limit(16 << 10) }

// limit says how much a client takes in ahead of need.
func (c *client) limit(n int) {
	c.t.Helper()
	nc := c.Conn
	if secure, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = secure.NetConn()
	}
	if err := nc.(*net.TCPConn).SetReadBuffer(n); err != nil {
		c.t.Fatal(err)
	}
}

// needLinux skips a test of what only Linux tells about a connection.
func needLinux(t testing.TB) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the kernel is asked for what the peer has taken on Linux only")
	}
}

// writer is a handler that writes a large response, and tells how that ended.
func writer() (http.HandlerFunc, chan error) {
	ended := make(chan error, 1)
	return func(w http.ResponseWriter, r *http.Request) {
		_, err := w.Write(make([]byte, large))
		ended <- err
	}, ended
}

func TestReaderStops(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		limits := off()
		limits.WriteTimeout = 300 * ms
		write, ended := writer()
		s := start(t, secure, limits, write)
		c := s.dial()
		c.narrow()
		begun := c.send(get("/"))
		err := receive(t, ended)
		notBefore(t, time.Now(), begun, limits.WriteTimeout)
		var timeout *idle.TimeoutError
		if !errors.As(err, &timeout) || timeout.Reason != idle.ReasonWrite {
			t.Errorf("the handler got %v, want a timeout of writing", err)
		}
		// It is reset, or the kernel would keep for minutes what is not taken.
		if n, err := io.Copy(io.Discard, c.in); runtime.GOOS == "linux" && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after %d bytes the client got %v, want a reset", n, err)
		}
	})
}

// A response belongs to a request, whatever was waited for when that came.
func TestPhaseOfAResponse(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{"handshake": "", "header": get("/large")[:5], "keep-alive": get("/")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := off()
			limits.WriteTimeout = 300 * ms
			write, ended := writer()
			s := serve(t, limits, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/large" {
					write(w, r)
				}
			})
			c := s.dial()
			c.narrow()
			c.send(before)
			text := get("/large")
			if name == "keep-alive" {
				c.want(http.StatusOK)
			} else {
				text = text[len(before):]
			}
			time.Sleep(100 * ms) // so that it is waited for
			c.send(text)
			wantTimeout(t, receive(t, ended), "request", idle.ReasonWrite)
			s.wantOnly(1, "request", idle.ReasonWrite)
		})
	}
}

// Taking a little now and then is not enough.
func TestReaderSips(t *testing.T) {
	needLinux(t)
	both(t, func(t *testing.T, secure bool) {
		limits := off()
		limits.WriteTimeout = time.Minute
		limits.WriteRate = idle.Rate{BytesPerSecond: 10 << 20, Grace: 500 * ms}
		write, ended := writer()
		s := start(t, secure, limits, write)
		c := s.dial()
		c.narrow()
		begun := c.send(get("/"))
		go func() {
			b := make([]byte, 1<<10)
			for {
				time.Sleep(50 * ms)
				if _, err := c.Read(b); err != nil {
					return
				}
			}
		}()
		err := receive(t, ended)
		notBefore(t, time.Now(), begun, limits.WriteRate.Grace)
		var timeout *idle.TimeoutError
		if !errors.As(err, &timeout) || timeout.Reason != idle.ReasonMinWriteRate {
			t.Errorf("the handler got %v, want a timeout of the least rate", err)
		}
	})
}

// A slow client above the rate gets all of it, though it takes many times the
// limits, and however the response is sent.
func TestSlowReaderLives(t *testing.T) {
	needLinux(t)
	if testing.Short() {
		t.Skip("takes seconds")
	}
	file := filepath.Join(t.TempDir(), "large")
	want := make([]byte, 8<<20)
	for i := range want {
		want[i] = byte(i >> 8)
	}
	if err := os.WriteFile(file, want, 0o600); err != nil {
		t.Fatal(err)
	}
	both(t, func(t *testing.T, secure bool) {
		for name, h := range map[string]http.HandlerFunc{
			"Write":     func(w http.ResponseWriter, r *http.Request) { w.Write(want) },
			"ServeFile": func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) },
			"ServeContent": func(w http.ResponseWriter, r *http.Request) {
				http.ServeContent(w, r, "large", time.Time{}, bytes.NewReader(want))
			},
		} {
			t.Run(name, func(t0 *testing.T) {
				t0.Parallel()
				t := intime.Of(t0, 100*ms)
				limits := all(500 * ms)
				limits.WriteRate = idle.Rate{BytesPerSecond: 10_000, Grace: 500 * ms}
				s := start(t, secure, limits, h)
				c := s.dial()
				c.limit(512 << 10)
				begun := c.send(get("/"))
				response, err := http.ReadResponse(c.in, nil)
				if err != nil {
					t.Fatal(err)
				}
				var got bytes.Buffer
				for err == nil {
					_, err = io.CopyN(&got, response.Body, int64(len(want)/64))
					time.Sleep(30 * ms)
				}
				if !bytes.Equal(got.Bytes(), want) || err != io.EOF {
					t.Errorf("got %d bytes, and %v after %v", got.Len(), err, time.Since(begun))
				}
				// It ends some time after the server has written the last of it.
				for r, n := range s.Stats().TimedOut {
					if r != idle.ReasonRead {
						t.Errorf("%d timed out for %q", n, r)
					}
				}
			})
		}
	})
}

// A stream of events with long silences: nobody waits then.
func TestSilentStream(t *testing.T) {
	both(t, func(t0 *testing.T, secure bool) {
		t := intime.Of(t0, 100*ms)
		limits := all(500 * ms)
		limits.WriteRate = idle.Rate{BytesPerSecond: 1000, Grace: 500 * ms}
		limits.BodyRate = limits.WriteRate
		s := start(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			for range 3 {
				io.WriteString(w, "data: x\n\n")
				http.NewResponseController(w).Flush()
				time.Sleep(3 * limits.WriteTimeout)
			}
		})
		c := s.dial()
		c.send(get("/"))
		if body, _ := c.want(http.StatusOK); len(body) != 27 {
			t.Errorf("got %q", body)
		}
		s.wantNone()
	})
}
