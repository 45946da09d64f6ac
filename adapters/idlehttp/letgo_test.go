package idlehttp

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// released waits until c is closed, which the collector does to a connection that
// its server has forgotten.
func (c *client) released() {
	c.t.Helper()
	eventually(c.t, "the connection is collected", func() bool {
		runtime.GC()
		c.SetReadDeadline(time.Now().Add(20 * ms))
		_, err := c.in.ReadByte()
		return err == io.EOF
	})
}

// A hijacked connection that its handler forgets is released, as by the bare
// server, and holds neither the listener nor what it runs.
func TestForgottenHijack(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		s := start(t, secure, all(patience), func(w http.ResponseWriter, r *http.Request) { hijack(t, w) })
		var clients []*client
		for range 3 {
			c := s.dial()
			c.send(upgrade)
			c.line("ready")
			clients = append(clients, c)
		}
		s.wantNone()
		if st := s.settled(); st.Gone != 3 {
			t.Errorf("%+v", st)
		}
		for _, c := range clients {
			c.released()
		}
	})
}

// What net/http does with a hijacked connection that is forgotten.
func TestTrapForgottenHijack(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { hijack(t, w) }))
	defer s.Close()
	nc, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := &client{Conn: nc, t: t, in: bufio.NewReader(nc)}
	c.send(upgrade)
	c.line("ready")
	c.released()
}

// Watch after the server's end is refused if nothing is left that could watch.
func TestWatchAfterTheEnd(t *testing.T) {
	t.Parallel()
	watch := make(chan func(idle.Policy) error, 1)
	s := serve(t, off(), func(w http.ResponseWriter, r *http.Request) {
		nc, _ := hijack(t, w)
		t.Cleanup(func() { nc.Close() })
		watch <- func(p idle.Policy) error { return Watch(r, p, nil) }
	})
	c := s.dial()
	c.send(upgrade)
	c.line("ready")
	again := receive(t, watch)
	if err := again(idle.Policy{IdleTimeout: time.Hour}); err != nil {
		t.Error(err)
	}
	if err := again(idle.Policy{}); err != nil {
		t.Error(err)
	}
	s.server.Close()
	s.Close()
	if err := again(idle.Policy{IdleTimeout: time.Hour}); err == nil || !strings.Contains(err.Error(), "listener") || !errors.Is(err, net.ErrClosed) {
		t.Errorf("Watch after the end of the listener gives %v", err)
	}
	if err := again(idle.Policy{}); err != nil {
		t.Errorf("Watch without limits after the end of the listener gives %v", err)
	}
}

// Watch takes limits that are shorter than the tick of all others, and counts what
// it times out.
func TestWatchShorterThanTheTick(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	s := serve(t, Timeouts{}, func(w http.ResponseWriter, r *http.Request) {
		nc, rw := hijack(t, w)
		if err := Watch(r, idle.Policy{IdleTimeout: 50 * ms}, nil); err != nil {
			t.Error(err)
			nc.Close()
		}
		ended <- echoLines(nc, rw)
	})
	c := s.dial()
	c.send(upgrade)
	wantTimeout(t, receive(t, ended), "hijacked", idle.ReasonIdle)
	s.wantOnly(1, "hijacked", idle.ReasonIdle)
}
