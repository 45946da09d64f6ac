package httpsuite

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// drain starts the adapter's Shutdown. The channel gets its result.
func (s *Site) drain(d idle.Drain) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- s.Setup.Drain(context.Background(), d) }()
	return ended
}

var ofDrain = []promise{
	// Idle connections are ended over the given time, the most idle first. Meanwhile no
	// connection is accepted. The server ends after the last one.
	{"DrainEndsTheMostIdleFirst", usual, func(t *testing.T, u under) {
		s := u.start(t, All(Patience), echo)
		var clients []*Client
		for range 4 {
			c := s.Dial()
			c.Get("/")
			clients = append(clients, c)
			time.Sleep(200 * ms) // more than a tick, so that the idle times differ
		}
		const over = 400 * time.Millisecond
		begun := time.Now()
		ended := s.drain(idle.Drain{Duration: over})
		var last time.Time
		for i, c := range clients {
			at := c.WantClosed()
			if at.Before(last) {
				t.Errorf("client %d was closed before the one that was more idle", i)
			}
			last = at
		}
		NotBefore(t, last, begun, over-100*time.Millisecond)
		if err := Receive(t, ended); err != nil {
			t.Error(err)
		}
		if err := s.Served(); err != nil {
			t.Error(err)
		}
		if st := s.Settled(); st.Drained != 4 || st.Closed != 0 || len(st.TimedOut) > 0 {
			t.Errorf("%+v", st)
		}
		WantNoListener(t, s.Listener)
	}},

	// A response that has begun is completed. One that begins later asks the client to close the
	// connection.
	{"DrainWaitsForResponses", usual, func(t *testing.T, u under) {
		goOn, begun := make(chan struct{}), make(chan struct{}, 10)
		s := u.start(t, All(Patience), func(r Request) {
			io.Copy(io.Discard, r.Body())
			if r.Path() != "/slow" {
				return
			}
			r.Stream(func(w io.Writer, flush func() error) {
				io.WriteString(w, "one")
				flush()
				begun <- struct{}{}
				<-goOn
				io.WriteString(w, "two")
			})
		})
		slow, pipelined := s.Dial(), s.Dial()
		slow.Send(Get("/slow"))
		pipelined.Send(Get("/slow") + Get("/"))
		<-begun
		<-begun
		ended := s.drain(idle.Drain{})
		Eventually(t, "both are told", func() bool { return s.Setup.Told() == 2 })
		select {
		case err := <-ended:
			t.Fatal("Shutdown did not wait: ", err)
		default:
		}
		close(goOn)
		if body := slow.Want(http.StatusOK); body != "onetwo" {
			t.Errorf("%q", body)
		}
		if body := pipelined.Want(http.StatusOK); body != "onetwo" {
			t.Errorf("%q", body)
		}
		if r := pipelined.Response(); !r.Close {
			t.Error("the next response does not ask to close the connection")
		}
		slow.WantClosed()
		pipelined.WantClosed()
		if err := Receive(t, ended); err != nil {
			t.Error(err)
		}
	}},

	// A handler that sets deadlines hasn't hijacked the connection, so the drain waits for its
	// response.
	{"DrainWaitsInSpiteOfDeadlines", everywhere, func(t *testing.T, u under) {
		for name, at := range map[string]time.Time{"set": time.Now().Add(time.Hour), "lifted": {}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				begun, goOn := make(chan bool, 1), make(chan bool)
				s := u.start(t, All(Patience), func(r Request) {
					if err := r.SetDeadline(at); err != nil {
						t.Error(err)
					}
					begun <- true
					<-goOn
					r.Write([]byte("done"))
				})
				c := s.Dial()
				c.Send(Get("/"))
				Receive(t, begun)
				ended := s.drain(idle.Drain{})
				select {
				case err := <-ended:
					t.Error("Shutdown did not wait: ", err)
				case <-time.After(limit):
				}
				close(goOn)
				if body := c.Want(http.StatusOK); body != "done" {
					t.Errorf("%q", body)
				}
				c.WantClosed()
				if err := Receive(t, ended); err != nil {
					t.Error(err)
				}
			})
		}
	}},

	// A new connection may still send its first request, which is answered.
	{"DrainWaitsForFirstRequests", usual, func(t *testing.T, u under) {
		s := u.start(t, All(Patience), echo)
		c := s.Dial()
		Eventually(t, "it is accepted", func() bool { return s.Stats().Live == 1 })
		ended := s.drain(idle.Drain{})
		Eventually(t, "it is told", func() bool { return s.Setup.Told() == 1 })
		c.Send(Get("/"))
		if r := c.Response(); r.StatusCode != http.StatusOK || !r.Close {
			t.Errorf("%s, and the connection is to be closed: %v", r.Status, r.Close)
		}
		c.Drain()
		if err := Receive(t, ended); err != nil {
			t.Error(err)
		}
	}},

	// If it sends none, HandshakeTimeout ends it, and the server waits for that.
	{"DrainWaitsForHandshakes", usual, func(t *testing.T, u under) {
		s := u.start(t, Only(limit, "HandshakeTimeout"), echo)
		c := s.Dial()
		Eventually(t, "it is accepted", func() bool { return s.Stats().Tracked == 1 }) // it may have ended already
		ended := s.drain(idle.Drain{})
		NotBefore(t, c.Drain(), c.Begun, limit)
		if err := Receive(t, ended); err != nil {
			t.Error(err)
		}
	}},

	// If a handler is running when its connection's turn comes, the response asks the client to
	// close, as with the bare server's Shutdown.
	{"DrainTellsWhatIsHandled", usual, func(t *testing.T, u under) {
		const n = 20
		goOn, begun := make(chan struct{}), make(chan struct{}, n)
		s := u.start(t, All(Patience), func(r Request) {
			io.Copy(io.Discard, r.Body())
			begun <- struct{}{}
			<-goOn
			if r.Path() != "/empty" {
				r.Write([]byte("answer"))
			}
		})
		var clients []*Client
		for i := range n {
			c := s.Dial()
			c.Send(Get([]string{"/", "/empty"}[i%2]))
			clients = append(clients, c)
			Receive(t, begun)
		}
		ended := s.drain(idle.Drain{})
		Eventually(t, "all are told", func() bool { return s.Setup.Told() == n })
		close(goOn)
		for i, c := range clients {
			r := c.Response()
			if io.Copy(io.Discard, r.Body); !r.Close || r.StatusCode != http.StatusOK {
				t.Errorf("client %d: status %d, asked to close: %v", i, r.StatusCode, r.Close)
			}
			c.WantClosed()
		}
		if err := Receive(t, ended); err != nil {
			t.Error(err)
		}
	}},

	// What is left at ForceAfter is cut.
	{"DrainStops", usual, func(t *testing.T, u under) {
		s := u.start(t, Off(), func(r Request) {
			r.Stream(func(w io.Writer, flush func() error) {
				for {
					if _, err := w.Write(Large); err != nil {
						return
					}
					flush()
				}
			})
		})
		c := s.Dial()
		c.Send(Get("/"))
		c.Response()
		const stop = 200 * time.Millisecond
		begun := time.Now()
		if err := Receive(t, s.drain(idle.Drain{ForceAfter: stop})); err != nil {
			t.Error(err)
		}
		NotBefore(t, time.Now(), begun, stop)
		if st := s.Settled(); st.Drained != 1 {
			t.Errorf("%+v", st)
		}
	}},

	// Hijacked connections are ended too. If one is watched, OnDrain is called first.
	{"DrainEndsHijacked", usual, func(t *testing.T, u under) {
		told := make(chan struct{}, 1)
		s := u.start(t, All(Patience), func(r Request) {
			path := r.Path()
			r.Hijack(func(c net.Conn, _ *bufio.Reader) {
				defer c.Close()
				if path == "/watched" {
					if err := r.Watch(c, idle.Policy{IdleTimeout: time.Hour, WriteTimeout: limit}, httplimits.Callbacks{OnDrain: func() {
						io.WriteString(c, "bye\n")
						told <- struct{}{}
					}}); err != nil {
						t.Error(err)
					}
				}
				io.WriteString(c, "ready\n")
				io.Copy(io.Discard, c)
			})
		})
		watched, alone := s.Dial(), s.Dial()
		watched.Send(strings.Replace(Upgrade, "/hijack", "/watched", 1))
		watched.Line("ready")
		alone.Send(Upgrade)
		alone.Line("ready")
		ended := s.drain(idle.Drain{})
		watched.Line("bye")
		Receive(t, told)
		watched.WantClosed()
		alone.WantClosed()
		if err := Receive(t, ended); err != nil {
			t.Error(err)
		}
	}},

	{"DrainRefuses", plain, func(t *testing.T, u under) {
		s := u.start(t, All(Patience), echo)
		WantError(t, s.Setup.Drain(context.Background(), idle.Drain{Duration: -time.Second}), u.Package+": Shutdown: ", "Drain.Duration is -1s")
		c := s.Dial()
		c.Get("/") // it still works
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Setup.Drain(ctx, idle.Drain{Duration: time.Hour}) }()
		Eventually(t, "no connection is accepted", func() bool {
			nc, err := net.Dial("tcp", s.Addr().String())
			if err == nil {
				nc.Close()
			}
			return err != nil
		})
		WantError(t, s.Setup.Drain(context.Background(), idle.Drain{}), "another one is under way")
		cancel()
		if err := Receive(t, ended); !errors.Is(err, context.Canceled) && err != nil {
			t.Error(err)
		}
		if err := s.Served(); err != nil {
			t.Error(err)
		}
	}},

	// A connection for which there's no room is closed. If its request has arrived already, it
	// may get a 503 first.
	{"CapacityRefuses", usual, func(t *testing.T, u under) {
		s := u.start(t, All(Patience), echo)
		if err := s.Tracker().SetCapacity(idle.Capacity{MaxConns: 1, MinIdle: Patience}); err != nil {
			t.Fatal(err)
		}
		first := s.Dial()
		first.Get("/")
		raw, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		raw.SetDeadline(time.Now().Add(Patience))
		io.WriteString(raw, Get("/"))
		answer, err := io.ReadAll(raw)
		if err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		if s := string(answer); s != "" && (!strings.HasPrefix(s, "HTTP/1.1 503 ") || !strings.Contains(s, "\r\nRetry-After: ")) {
			t.Errorf("%q", s)
		}
		first.Get("/") // it still works
		first.Close()
		Eventually(t, "there is room again", func() bool { return s.Stats().Live == 0 })
		s.Dial().Get("/")
		if st := s.Stats(); st.Refused != 1 {
			t.Errorf("%+v", st)
		}
	}},

	// A client that hasn't sent its PROXY header, so that its address isn't known yet, doesn't
	// delay others.
	{"AddressThatComesLate", usual, func(t *testing.T, u under) {
		header := make(chan struct{})
		s := u.start(t, Only(time.Minute), func(r Request) { io.Copy(io.Discard, r.Body()) }, func(c *Config) {
			c.Listener = &proxied{Listener: Listen(t), first: header}
		})
		comes := sync.OnceFunc(func() { close(header) })
		t.Cleanup(comes)
		if err := s.Tracker().SetCapacity(idle.Capacity{MaxConns: 100}); err != nil {
			t.Fatal(err)
		}
		s.Tracker().RecentEnds() // from now on, ends have labels
		silent := s.DialBare()
		for range 3 {
			c := s.Dial()
			c.Get("/")
			c.Close()
		}
		if err := s.Tracker().Visit(t.Context(), func(i idle.Info) { i.Label() }); err != nil {
			t.Error(err)
		}
		comes()
		if u.Secure {
			silent.Shake()
		}
		silent.Get("/")
	}},

	// Idle connections are evicted, those with a request aren't.
	{"CapacityEvicts", usual, func(t *testing.T, u under) {
		begun, goOn := make(chan struct{}), make(chan struct{})
		s := u.start(t, All(Patience), func(r Request) {
			io.Copy(io.Discard, r.Body())
			if r.Path() == "/slow" {
				begun <- struct{}{}
				<-goOn
			}
		})
		busy := s.Dial()
		busy.Send(Get("/slow"))
		<-begun
		idler := s.Dial()
		idler.Get("/")
		Eventually(t, "both are idle for longer than MinIdle, as the tracker reckons", func() bool {
			n := 0
			if err := s.Tracker().Visit(t.Context(), func(i idle.Info) {
				if i.Idle >= time.Second {
					n++
				}
			}); err != nil {
				t.Fatal(err)
			}
			return n == 2
		})
		if err := s.Tracker().SetCapacity(idle.Capacity{MaxConns: 2, MinIdle: 100 * ms}); err != nil {
			t.Fatal(err)
		}
		s.Dial().Get("/")
		Eventually(t, "an idle one makes room", func() bool { return s.Stats().Evicted == 1 })
		idler.WantClosed()
		close(goOn)
		busy.Want(http.StatusOK)
		if st := s.Stats(); st.Refused != 0 || st.Evicted != 1 {
			t.Errorf("%+v", st)
		}
	}},

	// One of two servers is drained under load. A client that repeats idempotent requests, as
	// usual, sees no failure.
	{"DrainUnderLoad", usual, func(t *testing.T, u under) {
		for _, protocol := range protocolsOf(u) {
			t.Run(protocol, func(t *testing.T) {
				t.Parallel()
				underLoad(t, u, protocol)
			})
		}
	}},
}

// protocolsOf returns the protocols that the server supports.
func protocolsOf(u under) []string {
	if u.SpeaksHTTP2 && u.Secure {
		return []string{"HTTP/1", "HTTP/2"}
	}
	return []string{"HTTP/1"}
}

// underLoad drains one of two servers while clients use both.
func underLoad(t *testing.T, u under, protocol string) {
	handler := func(r Request) {
		io.Copy(io.Discard, r.Body())
		r.Write(Large[:32<<10])
	}
	drained, other := u.start(t, All(Patience), handler), u.start(t, All(Patience), handler)
	way := newWay(drained)
	tr := &http.Transport{MaxIdleConnsPerHost: 20, Protocols: new(http.Protocols), DialContext: way.dial}
	defer tr.CloseIdleConnections()
	tr.Protocols.SetHTTP1(protocol == "HTTP/1")
	tr.Protocols.SetHTTP2(protocol == "HTTP/2")
	scheme := "http"
	if u.Secure {
		_, tr.TLSClientConfig = Identity()
		tr.TLSClientConfig = withProtocol(tr.TLSClientConfig, protocol)
		scheme = "https"
	}
	client := http.Client{Transport: tr, Timeout: Patience}
	inTime := intime.Of(t, time.Second) // Shutdown gives clients 2 s to learn of it from a response
	var stop atomic.Bool
	var served atomic.Int64
	var load sync.WaitGroup
	for range 10 {
		load.Go(func() {
			for !stop.Load() {
				r, err := client.Get(scheme + "://" + drained.Addr().String() + "/")
				if err != nil {
					inTime.Error(err)
					return
				}
				if _, err = io.Copy(io.Discard, r.Body); err != nil {
					inTime.Error(err)
				}
				r.Body.Close()
				served.Add(1)
			}
		})
	}
	Eventually(t, "the load runs", func() bool { return served.Load() > 100 })
	way.lead(other)
	err := Receive(t, drained.drain(idle.Drain{Duration: 300 * time.Millisecond, ForceAfter: Patience}))
	if err != nil {
		t.Error(err)
	}
	before := served.Load()
	Eventually(t, "the other server has the load", func() bool { return served.Load() > before+100 })
	stop.Store(true)
	load.Wait()
	if st := drained.Stats(); st.Live > 0 {
		t.Errorf("%+v", st)
	}
}

// withProtocol returns a copy of c that offers only one protocol.
func withProtocol(c *tls.Config, protocol string) *tls.Config {
	c = c.Clone()
	c.NextProtos = map[string][]string{"HTTP/1": {"http/1.1"}, "HTTP/2": {"h2"}}[protocol]
	return c
}
