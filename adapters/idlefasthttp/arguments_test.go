package idlefasthttp

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/idle"
)

// TestRefusedServers: a server whose own timeouts would work against those here,
// or that cannot work at all.
func TestRefusedServers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		server *fasthttp.Server
		says   []string
	}{
		{nil, []string{"server is nil"}},
		{&fasthttp.Server{}, []string{"Server.Handler", "nil"}},
		{&fasthttp.Server{Handler: hello, ReadTimeout: time.Second}, []string{"Server.ReadTimeout", "1s", "HeaderTimeout", "BodyTimeout"}},
		{&fasthttp.Server{Handler: hello, WriteTimeout: time.Second}, []string{"Server.WriteTimeout", "1s", "Timeouts.WriteTimeout"}},
		{&fasthttp.Server{Handler: hello, IdleTimeout: time.Second}, []string{"Server.IdleTimeout", "1s", "KeepAliveTimeout"}},
		{&fasthttp.Server{Handler: hello, TLSConfig: &tls.Config{NextProtos: []string{"http/1.1", "h2"}}}, []string{"NextProtos", `"h2"`}},
	} {
		l := &broken{closed: make(chan struct{})}
		_, err := NewListener(test.server, l, Timeouts{})
		wantError(t, err, test.says...)
		select {
		case <-l.closed:
			t.Error("NewListener has closed the listener")
		default:
		}
		wantError(t, Serve(test.server, l, Timeouts{}), test.says...)
		receive(t, l.closed)
		l = &broken{closed: make(chan struct{})}
		wantError(t, ServeTLS(test.server, l, "", "", Timeouts{}), test.says...)
		receive(t, l.closed)
	}
	wantError(t, Serve(&fasthttp.Server{Handler: hello}, nil, Timeouts{}), "listener is nil")
	_, err := NewListener(&fasthttp.Server{Handler: hello}, nil, Timeouts{})
	wantError(t, err, "listener is nil")
	l, err := NewListener(&fasthttp.Server{Handler: hello, TLSConfig: &tls.Config{NextProtos: []string{"http/1.1", "http/1.0"}}},
		&broken{closed: make(chan struct{})}, Timeouts{})
	if err != nil {
		t.Error(err)
	} else {
		l.Close()
	}
}

func wantError(t *testing.T, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one about %q", says)
		return
	}
	for _, s := range append(says, "idlefasthttp: ") {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q does not contain %q", err, s)
		}
	}
}

// TestRefusedTimeouts: the error names the field and its value. What settings may be,
// package httpconn tests.
func TestRefusedTimeouts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		timeouts Timeouts
		says     []string
	}{
		{Timeouts{HandshakeTimeout: -2}, []string{"HandshakeTimeout", "-2ns", "10s", "Off"}},
		{Timeouts{StreamTimeout: time.Minute}, []string{"StreamTimeout", "1m0s", "HTTP/2"}},
		{Timeouts{StreamTimeout: -2}, []string{"StreamTimeout", "-2ns", "HTTP/2"}},
		{Timeouts{HeaderTimeout: 5}, []string{"request header", "5ns", "10ms"}}, // forgot the unit
		{Timeouts{WriteRate: idle.Rate{BytesPerSecond: 1, Grace: -time.Second}}, []string{"-1s", "MinWriteRate.Grace"}},
		{Timeouts{Hijacked: idle.Policy{IdleTimeout: -time.Second}}, []string{"hijacked", "IdleTimeout", "-1s"}},
		{Timeouts{Hijacked: idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Second, Timeout: time.Second}}}, []string{"Hijacked", "1s", "Watch"}},
		{Timeouts{Idle: idle.Options{Tick: time.Nanosecond}}, []string{"Options.Tick", "1ns"}},
	} {
		_, err := NewListener(&fasthttp.Server{Handler: hello}, &broken{closed: make(chan struct{})}, test.timeouts)
		wantError(t, err, test.says...)
	}
	l, err := NewListener(&fasthttp.Server{Handler: hello}, &broken{closed: make(chan struct{})}, Timeouts{StreamTimeout: Off})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if st := l.Stats(); len(st.Phases) != 5 || len(st.Limits) != 8 {
		t.Errorf("there are counts of %v and %v, want none of HTTP/2", st.Phases, st.Limits)
	}
}

// TestARefusedServerIsLeftAsItWas: its hooks are those that it had.
func TestARefusedServerIsLeftAsItWas(t *testing.T) {
	t.Parallel()
	f := &fasthttp.Server{Handler: hello}
	if _, err := NewListener(f, &broken{closed: make(chan struct{})}, Timeouts{HeaderTimeout: -2}); err == nil {
		t.Error("no error")
	}
	if f.ConnState != nil || f.HeaderReceived != nil {
		t.Error("it has hooks")
	}
}

// TestOff: a connection without limits is left alone.
func TestOff(t *testing.T) {
	t.Parallel()
	off := idle.Rate{BytesPerSecond: Off}
	s := start(t, &fasthttp.Server{}, Timeouts{HandshakeTimeout: Off, HeaderTimeout: Off, BodyTimeout: Off, BodyRate: off,
		HandlerTimeout: Off, WriteTimeout: Off, WriteRate: off, KeepAliveTimeout: Off})
	c := s.dial(t)
	for _, part := range []string{post(3)[:5], post(3)[5:], "abc"} {
		time.Sleep(limit)
		c.send(part)
	}
	c.response(200)
	time.Sleep(limit)
	c.get("/")
	s.noTimeout(t)
	c.Close()
}

// TestHooksOfTheUser are called still, with the server's own connection, and
// what HeaderReceived returns holds.
func TestHooksOfTheUser(t *testing.T) {
	t.Parallel()
	states := make(chan fasthttp.ConnState, 20)
	s := start(t, &fasthttp.Server{
		Logger: mute,
		ConnState: func(nc net.Conn, to fasthttp.ConnState) {
			if _, ok := nc.RemoteAddr().(*net.TCPAddr); !ok {
				t.Errorf("a %T", nc.RemoteAddr())
			}
			states <- to
		},
		HeaderReceived: func(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
			return fasthttp.RequestConfig{MaxRequestBodySize: 10}
		},
	}, limits())
	c := s.dial(t)
	c.send(post(10) + "0123456789")
	c.response(200)
	c.send(post(11) + "01234567890")
	if res := c.response(400); res == "" {
		t.Error("no text")
	}
	for _, want := range []fasthttp.ConnState{fasthttp.StateNew, fasthttp.StateActive, fasthttp.StateIdle, fasthttp.StateActive, fasthttp.StateClosed} {
		if got := receive(t, states); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// TestSeveralListeners of one server have limits of their own.
func TestSeveralListeners(t *testing.T) {
	t.Parallel()
	f := &fasthttp.Server{Handler: hello, MaxConnsPerIP: 100}
	var listeners []*Listener
	for i := range 3 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		to := limits()
		if i == 1 {
			to.KeepAliveTimeout, to.BodyTimeout, to.HandlerTimeout = limit, limit, time.Minute
		}
		l, err := NewListener(f, ln, to)
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
	}
	served := make(chan error, len(listeners))
	var clients []*client
	for _, l := range listeners { // when all have been made
		go func() { served <- f.Serve(l) }()
		s := &server{Listener: l}
		c := s.dial(t)
		c.get("/")
		clients = append(clients, c)
	}
	clients[1].closed()
	for _, i := range []int{0, 2} {
		time.Sleep(2 * limit)
		clients[i].get("/")
		clients[i].Close()
	}
	// As in settle; each listener but one counts as a connection.
	eventually(t, "no connection is open", func() bool { return int(f.GetOpenConnectionsCount()) < len(listeners) })
	if err := f.Shutdown(); err != nil {
		t.Error(err)
	}
	for i, l := range listeners {
		if err := receive(t, served); err != nil {
			t.Error(err)
		}
		if n := l.Stats().Phases["keep-alive"]; n != uint64(i%2) {
			t.Errorf("listener %d has %d timeouts", i, n)
		}
	}
}

// A listener that has timeouts already is refused.
func TestRefusedListener(t *testing.T) {
	t.Parallel()
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := func() *fasthttp.Server { return &fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}} }
	l, err := NewListener(server(), bare, Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := NewListener(server(), l, Timeouts{}); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("got %v", err)
	}
}
