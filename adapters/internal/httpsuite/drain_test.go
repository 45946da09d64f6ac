package httpsuite

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// drain starts the adapter's Shutdown. The channel gets its result.
func (s *Site) drain(d idle.Drain) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- s.Setup.Drain(context.Background(), d) }()
	return ended
}

var ofDrain = []promise{
	// A response that has begun is completed. One that begins later asks the client to close the
	// connection.
	{"DrainWaitsForResponses", usual, func(t *testing.T, u under) {
		goOn, begun := make(chan struct{}), make(chan struct{}, 10)
		s := u.start(t, All(Patience), func(r request) {
			io.Copy(io.Discard, r.Body())
			if r.Path() != "/slow" {
				return
			}
			if err := r.SetReadDeadline(time.Now().Add(time.Hour)); err != nil { // that doesn't mean that it hijacks
				t.Error(err)
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
		NoError(t, Receive(t, ended))
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
		NoError(t, Receive(t, ended))
	}},

	// If it sends none, HandshakeTimeout ends it, and the server waits for that.
	{"DrainWaitsForHandshakes", usual, func(t *testing.T, u under) {
		s := u.start(t, Only(limit, "HandshakeTimeout"), echo)
		c := s.Dial()
		Eventually(t, "it is accepted", func() bool { return s.Stats().Tracked == 1 }) // it may have ended already
		ended := s.drain(idle.Drain{})
		NotBefore(t, c.Drain(), c.Begun, limit)
		NoError(t, Receive(t, ended))
	}},

	// If a handler is running when its connection's turn comes, the response asks the client to
	// close, as with the bare server's Shutdown.
	{"DrainTellsWhatIsHandled", usual, func(t *testing.T, u under) {
		const n = 20
		goOn, begun := make(chan struct{}), make(chan struct{}, n)
		s := u.start(t, All(Patience), func(r request) {
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
		NoError(t, Receive(t, ended))
	}},

	// What is left at ForceAfter is cut.
	{"DrainStops", usual, func(t *testing.T, u under) {
		s := u.start(t, Off(), func(r request) {
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
		NoError(t, Receive(t, s.drain(idle.Drain{ForceAfter: stop})))
		NotBefore(t, time.Now(), begun, stop)
		if st := s.Settled(); st.Drained != 1 {
			t.Errorf("%+v", st)
		}
	}},

	// Hijacked connections are ended too. If one is watched, OnDrain is called first.
	{"DrainEndsHijacked", usual, func(t *testing.T, u under) {
		told, which := make(chan struct{}, 1), 0
		h, _ := hijack(func(h hijacked) error {
			if which++; which == 1 {
				NoError(t, h.watch(idle.Policy{IdleTimeout: time.Hour, WriteTimeout: limit}, httplimits.Callbacks{OnDrain: func() {
					io.WriteString(h, "bye\n")
					told <- struct{}{}
				}}))
			}
			io.WriteString(h, "set\n")
			_, err := io.Copy(io.Discard, h.in)
			return err
		})
		s := u.start(t, All(Patience), h)
		watched, alone := s.Dial(), s.Dial()
		for _, c := range []*Client{watched, alone} {
			c.upgrade()
			c.Line("set")
		}
		ended := s.drain(idle.Drain{})
		watched.Line("bye")
		Receive(t, told)
		watched.WantClosed()
		alone.WantClosed()
		NoError(t, Receive(t, ended))
	}},

	{"DrainRefuses", plain, func(t *testing.T, u under) {
		s := u.start(t, All(Patience), echo)
		WantError(t, s.Setup.Drain(context.Background(), idle.Drain{Duration: -time.Second}), u.pkg+": Shutdown: ", "Drain.Duration is -1s")
		c := s.Dial()
		c.Get("/") // it still works
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Setup.Drain(ctx, idle.Drain{Duration: time.Hour}) }()
		Eventually(t, "no connection is accepted", func() bool {
			nc, err := s.Memory.Dial()
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
		NoError(t, s.Served())
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
		raw := s.DialBare()
		io.WriteString(raw, Get("/"))
		answer, err := io.ReadAll(raw.In)
		if !IsEnd(err) {
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

	// Idle connections are evicted, those with a request aren't.
	{"CapacityEvicts", usual, func(t *testing.T, u under) {
		begun, goOn := make(chan struct{}), make(chan struct{})
		s := u.start(t, All(Patience), func(r request) {
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
}
