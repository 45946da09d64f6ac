package idlehttp

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// upgrade is a request by which the handlers here take their connection over.
const upgrade = "GET /hijack HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n"

// hijack takes the connection over and says so to the client.
func hijack(t testing.TB, w http.ResponseWriter) (net.Conn, *bufio.ReadWriter) {
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Errorf("Hijack: %v", err)
		panic(http.ErrAbortHandler)
	}
	io.WriteString(nc, "ready\n")
	return nc, rw
}

// echoLines sends back line by line what it reads, and returns how that ended.
func echoLines(nc net.Conn, rw *bufio.ReadWriter) error {
	defer nc.Close()
	for {
		line, err := rw.ReadString('\n')
		if err != nil {
			return err
		}
		if _, err := io.WriteString(nc, line); err != nil {
			return err
		}
	}
}

// line checks that the next line is the wanted one.
func (c *client) line(want string) {
	c.t.Helper()
	if got, err := c.in.ReadString('\n'); got != want+"\n" || err != nil {
		c.t.Fatalf("got %q and %v, want %q", got, err, want)
	}
}

// A connection that is handed over has no limits of ours any more, whenever in
// its life that happens.
func TestHijackedIsHandedOver(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		for name, before := range map[string]string{"first": "", "second": get("/"), "after a body": post("5") + "hello"} {
			t.Run(name, func(t0 *testing.T) {
				t0.Parallel()
				t := intime.Of(t0, 100*ms)
				limits := all(500 * ms)
				limits.HandlerTimeout = 200 * ms
				ended := make(chan error, 1)
				s := start(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					if r.URL.Path == "/hijack" {
						ended <- echoLines(hijack(t, w))
					}
				})
				c := s.dial()
				if before != "" {
					c.send(before)
					c.want(http.StatusOK)
				}
				c.send(upgrade)
				c.line("ready")
				for range 2 {
					time.Sleep(3 * limits.KeepAliveTimeout)
					c.send("hello\n")
					c.line("hello")
				}
				c.Close()
				if err := receive(t, ended); !isEnd(err) {
					t.Errorf("the hijacked connection ended with %v", err)
				}
				s.wantNone()
			})
		}
	})
}

// Bytes that a client sends before it has been answered are not lost.
func TestHijackWithBytesAhead(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		s := start(t, secure, all(patience), func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(100 * ms) // the background read takes one
			echoLines(hijack(t, w))
		})
		c := s.dial()
		c.send(upgrade)
		c.send("early\n")
		c.line("ready")
		c.line("early")
	})
}

func TestHijackedPolicy(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		limits := off()
		limits.Hijacked = idle.Policy{IdleTimeout: 300 * ms}
		var echoed gate
		limits.OnTimeout = echoed.keep
		ended := make(chan error, 1)
		s := start(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			ended <- echoLines(hijack(t, w))
		})
		c := s.dial()
		c.send(upgrade)
		c.line("ready")
		last := c.send("hello\n")
		c.line("hello")
		echoed.open()
		notBefore(t, c.wantClosed(), last, limits.Hijacked.IdleTimeout)
		wantTimeout(t, receive(t, ended), "hijacked", idle.ReasonIdle)
		s.wantOnly(1, "hijacked", idle.ReasonIdle)
	})
}

// A peer that answers pings lives, and one that no longer does is dropped: that
// is what a WebSocket endpoint does.
func TestWatch(t *testing.T) {
	both(t, func(t0 *testing.T, secure bool) {
		t := intime.Of(t0, 100*ms)
		beat := idle.Heartbeat{Interval: 100 * ms, Timeout: 300 * ms, Misses: 2}
		ended := make(chan error, 1)
		var pings atomic.Int32
		s := start(t, secure, all(time.Second), func(w http.ResponseWriter, r *http.Request) {
			nc, rw := hijack(t, w)
			err := Watch(r, idle.Policy{Name: "lines", Heartbeat: beat}, func() error {
				pings.Add(1)
				_, err := io.WriteString(nc, "ping\n")
				return err
			})
			if err != nil {
				t.Error(err)
			}
			ended <- echoLines(nc, rw)
		})
		c := s.dial()
		c.send(upgrade)
		c.line("ready")
		var last time.Time
		for range 8 { // each is sent back as well
			c.line("ping")
			last = c.send("pong\n")
			c.line("pong")
		}
		s.wantNone()
		err := receive(t, ended)
		notBefore(t0, time.Now(), last, beat.Interval+2*beat.Timeout)
		wantTimeout(t, err, "lines", idle.ReasonHeartbeat)
		if n := pings.Load(); n < 10 {
			t.Errorf("%d pings", n)
		}
		s.wantOnly(1, "hijacked", idle.ReasonHeartbeat)
	})
}

// Watch can take back what it has said.
func TestWatchTwice(t0 *testing.T) {
	t0.Parallel()
	t := intime.Of(t0, 100*ms)
	ended := make(chan error, 1)
	s := serve(t, off(), func(w http.ResponseWriter, r *http.Request) {
		nc, rw := hijack(t, w)
		for _, p := range []idle.Policy{{IdleTimeout: 200 * ms}, {}} {
			if err := Watch(r, p, nil); err != nil {
				t.Error(err)
			}
		}
		ended <- echoLines(nc, rw)
	})
	c := s.dial()
	c.send(upgrade)
	c.line("ready")
	time.Sleep(600 * ms)
	c.send("hello\n")
	c.line("hello")
	c.Close()
	receive(t, ended)
	s.wantNone()
}

func TestWatchRefuses(t *testing.T) {
	t.Parallel()
	beat := idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Second, Timeout: time.Second}}
	errs := make(chan error, 2)
	s := serve(t, off(), func(w http.ResponseWriter, r *http.Request) {
		nc, _ := hijack(t, w)
		defer nc.Close()
		errs <- Watch(r, beat, nil)
		errs <- Watch(r, idle.Policy{IdleTimeout: -1}, nil)
	})
	s.dial().send(upgrade)
	for _, want := range []string{"ping is nil", "IdleTimeout is -1ns"} {
		if err := receive(t, errs); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "idlehttp: ") {
			t.Errorf("got %v, want something about %q", err, want)
		}
	}
	if err := Watch(httptest.NewRequest("GET", "/", nil), beat, func() error { return nil }); err == nil {
		t.Error("a request from elsewhere is accepted")
	}
}

// Watch of a connection that was not hijacked is refused, and does no harm.
func TestWatchWithoutHijack(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		limits := off()
		limits.HeaderTimeout = 300 * ms
		s := start(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			err := Watch(r, idle.Policy{IdleTimeout: time.Minute}, nil)
			if err == nil || !strings.Contains(err.Error(), "was not hijacked") || !strings.HasPrefix(err.Error(), "idlehttp: ") {
				t.Errorf("got %v", err)
			}
		})
		c := s.dial()
		c.send(get("/"))
		c.want(http.StatusOK)
		c.send("GET")
		c.want(http.StatusRequestTimeout)
		if n := s.Stats().Panics; n > 0 {
			t.Errorf("%d panics", n)
		}
		s.wantOnly(1, "request header", idle.ReasonReadTotal)
	})
}

// What was hijacked outlives its server, and so do its limits.
func TestHijackedPastItsServer(t *testing.T) {
	t.Parallel()
	limits := off()
	limits.Hijacked = idle.Policy{IdleTimeout: 400 * ms}
	var echoed gate
	limits.OnTimeout = echoed.keep
	ended := make(chan error, 1)
	s := serve(t, limits, func(w http.ResponseWriter, r *http.Request) {
		nc, rw := hijack(t, w)
		go func() { ended <- echoLines(nc, rw) }()
	})
	c := s.dial()
	c.send(upgrade)
	c.line("ready")
	s.server.Close() // does not close what was hijacked, and does not end its limits
	last := c.send("hello\n")
	c.line("hello")
	echoed.open()
	err := receive(t, ended)
	notBefore(t, time.Now(), last, limits.Hijacked.IdleTimeout)
	var timeout *idle.TimeoutError
	if !errors.As(err, &timeout) {
		t.Errorf("got %v, want a timeout", err)
	}
}
