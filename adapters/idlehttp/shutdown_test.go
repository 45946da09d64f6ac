package idlehttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// trackers returns how many trackers there are.
func trackers() int {
	stack := make([]byte, 1<<20)
	return bytes.Count(stack[:runtime.Stack(stack, true)], []byte("idle.(*Tracker).drive("))
}

// A tracker lives for as long as its listener is open or a connection is, and no
// longer, whichever is the last.
func TestTrackerEnds(t *testing.T) { // not parallel, so that there are no others
	entered, finish := make(chan bool, 1), make(chan bool, 1)
	s := serve(t, Timeouts{}, func(w http.ResponseWriter, r *http.Request) {
		entered <- true
		<-finish
	})
	c := s.dial()
	c.send(get("/"))
	receive(t, entered)
	down := make(chan error, 1)
	go func() { down <- s.server.Shutdown(context.Background()) }()
	if err := <-s.served; err != http.ErrServerClosed { // the listener is closed by now
		t.Error(err)
	}
	s.served <- http.ErrServerClosed
	time.Sleep(50 * ms)
	if n := trackers(); n != 1 {
		t.Errorf("there are %d trackers while a request is in flight", n)
	}
	finish <- true
	c.want(http.StatusOK)
	if err := receive(t, down); err != nil {
		t.Error(err)
	}
	eventually(t, "the tracker ends", func() bool { return trackers() == 0 })
	s.Close()
	s.Close()
}

func TestShutdownOfIdleConnections(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		s := start(t, secure, Timeouts{}, echo)
		told := make(chan bool, 1)
		s.server.RegisterOnShutdown(func() { told <- true })
		var clients []*client
		for range 5 {
			c := s.dial()
			c.send(get("/"))
			c.want(http.StatusOK)
			clients = append(clients, c)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		receive(t, told)
		for _, c := range clients {
			c.wantClosed()
		}
		if st := s.settled(); st.Gone != 5 {
			t.Errorf("%+v", st)
		}
	})
}

// While a server shuts down in good order, the limits of what is in flight go
// on; so a slow client cannot hold it.
func TestShutdownWithRequestsInFlight(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		limits := off()
		limits.BodyTimeout, limits.WriteTimeout = 600*ms, 600*ms
		entered, finish := make(chan bool, 3), make(chan bool)
		s := start(t, secure, limits, func(w http.ResponseWriter, r *http.Request) {
			entered <- true
			switch r.URL.Path {
			case "/wait":
				<-finish
			case "/large":
				w.Write(make([]byte, large))
			}
			io.Copy(w, r.Body)
		})
		waits, slow, stopped := s.dial(), s.dial(), s.dial()
		waits.send(get("/wait"))
		begun := slow.send(post("10") + "hello")
		stopped.narrow()
		stopped.send(get("/large"))
		for range 3 {
			receive(t, entered)
		}
		down := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			down <- s.server.Shutdown(ctx)
		}()
		if err := <-s.served; err != http.ErrServerClosed { // the listener is closed by now
			t.Error(err)
		}
		s.served <- http.ErrServerClosed
		notBefore(t, slow.drain(), begun, limits.BodyTimeout)
		eventually(t, "both are cut", func() bool {
			n := s.Stats().TimedOut
			return n[idle.ReasonRead] == 1 && n[idle.ReasonWrite] == 1
		})
		close(finish)
		waits.want(http.StatusOK)
		if err := receive(t, down); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if st := s.settled(); st.Gone != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestShutdownThatGivesUp(t *testing.T) {
	t.Parallel()
	entered := make(chan bool, 1)
	s := serve(t, Timeouts{}, func(w http.ResponseWriter, r *http.Request) {
		entered <- true
		<-r.Context().Done()
	})
	c := s.dial()
	c.send(get("/"))
	receive(t, entered)
	ctx, cancel := context.WithTimeout(context.Background(), 100*ms)
	defer cancel()
	if err := s.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
	s.server.Close()
	c.wantClosed()
	s.settled()
}

// An HTTP/2 connection that is open gets its farewell, and ends.
func TestShutdownHTTP2(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		s := start2(t, secure, Timeouts{}, echo)
		tr := s.transport()
		if _, err := s.do(t.Context(), tr, "/", nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.server.Shutdown(ctx); err != nil && secure {
			t.Error(err)
		}
		s.server.Close()
		s.settled()
	})
}

func TestServe(t *testing.T) {
	t.Parallel()
	ln := listen(t)
	server := &http.Server{Handler: http.HandlerFunc(echo), ErrorLog: silent(t)}
	served := make(chan error, 1)
	go func() { served <- Serve(server, ln, Timeouts{}) }()
	response, err := http.Get("http://" + ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	server.Close()
	if err := receive(t, served); err != http.ErrServerClosed {
		t.Errorf("Serve: %v", err)
	}
	again := listen(t)
	server = &http.Server{} // as of the other a goroutine may go on
	server.Close()
	if err := Serve(server, again, Timeouts{}); err != http.ErrServerClosed {
		t.Errorf("Serve of a closed server: %v", err)
	}
	wantNoListener(t, again)
}

// Errors of Serve are the server's own, and the listener is closed.
func TestServeFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if err := Serve(&http.Server{}, brokenListener{listen(t), broken}, Timeouts{}); !errors.Is(err, broken) {
		t.Errorf("Serve: %v", err)
	}
	ln := listen(t)
	if err := ServeTLS(&http.Server{}, ln, "no such file", "", Timeouts{}); err == nil {
		t.Error("ServeTLS without a certificate")
	}
	wantNoListener(t, ln)
	for _, serve := range []func(*http.Server, net.Listener) error{
		func(s *http.Server, ln net.Listener) error { return Serve(s, ln, Timeouts{}) },
		func(s *http.Server, ln net.Listener) error { return ServeTLS(s, ln, "", "", Timeouts{}) },
	} {
		ln := listen(t)
		if err := serve(&http.Server{ReadTimeout: 1}, ln); err == nil {
			t.Error("a server with a timeout of its own is served")
		}
		wantNoListener(t, ln)
	}
}

type brokenListener struct {
	net.Listener
	err error
}

func (l brokenListener) Accept() (net.Conn, error) { return nil, l.err }

func TestHTTPTestServer(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"plain": false, "tls": true} {
		t.Run(name, func(t *testing.T) {
			limits := off()
			limits.HandshakeTimeout = 300 * ms
			var shaken gate
			limits.OnTimeout = shaken.keep
			s := httptest.NewUnstartedServer(http.HandlerFunc(echo))
			s.Config.ErrorLog = silent(t)
			l, err := NewListener(s.Config, s.Listener, limits)
			if err != nil {
				t.Fatal(err)
			}
			s.Listener = l
			s.EnableHTTP2 = secure
			if secure {
				s.StartTLS()
			} else {
				s.Start()
			}
			response, err := s.Client().Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if want := map[bool]int{true: 2, false: 1}[secure]; response.ProtoMajor != want {
				t.Errorf("HTTP/%d", response.ProtoMajor)
			}
			shaken.open()
			begun := time.Now()
			silent, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			silent.SetDeadline(time.Now().Add(patience))
			if _, err := io.Copy(io.Discard, silent); !isEnd(err) {
				t.Error(err)
			}
			notBefore(t, time.Now(), begun, limits.HandshakeTimeout)
			s.Close()
			eventually(t, "all are gone", func() bool { return l.Stats().Live == 0 })
		})
	}
}

// A server can listen at two doors, each with limits of its own.
func TestTwoListeners(t *testing.T) {
	t.Parallel()
	server := &http.Server{Handler: http.HandlerFunc(echo), ErrorLog: silent(t), TLSConfig: identity().client.Clone()}
	server.TLSConfig.Certificates = append(server.TLSConfig.Certificates, identity().certificate)
	var states sync.Map
	server.ConnState = func(nc net.Conn, to http.ConnState) {
		n, _ := states.LoadOrStore(to, new(counter))
		n.(*counter).add()
	}
	served := make(chan error, 2)
	var sites []*site
	for i, limit := range []time.Duration{300 * ms, 600 * ms} {
		limits := off()
		limits.KeepAliveTimeout = limit
		s := &site{t: t, server: server, secure: i == 1}
		s.watch()
		l, err := NewListener(server, listen(t), limits)
		if err != nil {
			t.Fatal(err)
		}
		s.Listener = l
		sites = append(sites, s)
	}
	go func() { served <- server.Serve(sites[0].Listener) }()
	go func() { served <- server.ServeTLS(sites[1].Listener, "", "") }()
	for i, s := range sites {
		c := s.dial()
		last := c.send(get("/"))
		c.want(http.StatusOK)
		notBefore(t, c.wantClosed(), last, time.Duration(i+1)*300*ms)
		s.wantOnly(1, "keep-alive", idle.ReasonRead)
	}
	server.Close()
	for range sites {
		receive(t, served)
	}
	for state, n := range states.Range {
		eventually(t, "the hook is called twice with "+state.(http.ConnState).String(), func() bool { return n.(*counter).is(2) })
	}
	for _, s := range sites {
		if st := s.settled(); st.Tracked != 1 {
			t.Errorf("%+v", st)
		}
	}
}

type counter struct {
	sync.Mutex
	n int
}

func (c *counter) add() {
	c.Lock()
	defer c.Unlock()
	c.n++
}

func (c *counter) is(n int) bool {
	c.Lock()
	defer c.Unlock()
	return c.n == n
}
