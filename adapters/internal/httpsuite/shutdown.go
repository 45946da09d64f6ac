package httpsuite

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// shutDown begins to shut the server down, and waits until no connection is accepted any
// more. What Shutdown returns is received from the channel.
func (s *Site) shutDown(limit time.Duration) <-chan error {
	s.T.Helper()
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		ended <- s.Setup.Shutdown(ctx)
	}()
	if err := s.Served(); err != nil {
		s.T.Error(err)
	}
	return ended
}

var ofShutdown = []promise{
	// Idle connections are closed at once, which is no timeout.
	{"ShutdownOfIdleConnections", everywhere, func(t *testing.T, u under) {
		if u.RaceAtEnd {
			t.Skip("the server itself has a race")
		}
		s := u.start(t, Timeouts{}, echo)
		var clients []*Client
		for range 5 {
			c := s.Dial()
			c.Get("/")
			clients = append(clients, c)
		}
		if err := Receive(t, s.shutDown(Patience)); err != nil {
			t.Error(err)
		}
		for _, c := range clients {
			c.WantClosed()
		}
		if st := s.Settled(); st.Gone != 5 {
			t.Errorf("%+v", st)
		}
	}},

	// The limits of what is in flight go on, so a slow client cannot hold the server up. A
	// request that is not late is served.
	{"LimitsGoOnDuringShutdown", usual, func(t *testing.T, u under) {
		for name, test := range map[string]struct {
			sends, phase string
			reason       idle.Reason
			answer       int
		}{
			"silent":   {"", "handshake", idle.ReasonReadTotal, 0},
			"header":   {"G", "request header", idle.ReasonReadTotal, 408},
			"body":     {Post(10) + "hello", "request", idle.ReasonRead, 408},
			"response": {Get("/large"), "request", idle.ReasonWrite, 0},
		} {
			if name == "header" && u.Secure { // it may count as a part of the handshake
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				const limit = 2 * limit
				entered, finish := make(chan bool, 2), make(chan bool)
				end := sync.OnceFunc(func() { close(finish) })
				to := Only(limit, "HandshakeTimeout", "HeaderTimeout", "BodyTimeout", "WriteTimeout")
				var late sync.Map // the address of the slow client; the others may take their time
				to.OnTimeout = func(c net.Conn, err *idle.TimeoutError) bool {
					_, is := late.Load(c.RemoteAddr().String())
					return !is || err.Phase != test.phase
				}
				s := u.start(t, to, func(r Request) {
					entered <- true
					switch r.Path() {
					case "/wait":
						<-finish
					case "/large":
						r.Write(Large)
					default:
						echo(r)
					}
				})
				t.Cleanup(end)
				waits, slow := s.Dial(), s.Dial()
				late.Store(slow.LocalAddr().String(), true)
				waits.Send(Get("/wait"))
				if name == "response" {
					slow.Narrow(16 << 10)
				}
				begun := slow.Send(test.sends)
				if name == "silent" {
					begun = slow.Begun
				}
				Eventually(t, "both are accepted", func() bool { return s.Stats().Live == 2 })
				Receive(t, entered)
				if name == "response" || name == "body" && u.CallsEarly {
					Receive(t, entered)
				}
				down := s.shutDown(Patience)
				if test.answer != 0 {
					slow.Refused(test.answer)
				}
				s.WantOnly(1, test.phase, test.reason)
				NotBefore(t, time.Now(), begun, limit)
				slow.Drain()
				end()
				if response := waits.Response(); response.StatusCode != 200 {
					t.Errorf("got %s", response.Status)
				}
				waits.Close()
				if err := Receive(t, down); err != nil {
					t.Error(err)
				}
				if st := s.Settled(); st.Gone != 1 {
					t.Errorf("%+v", st)
				}
			})
		}
	}},

	// The timeouts of what is left when Shutdown has given up waiting go on.
	{"ShutdownThatGivesUp", usual, func(t *testing.T, u under) {
		entered, finish := make(chan bool, 1), make(chan bool)
		s := u.start(t, Only(limit, "KeepAliveTimeout"), func(r Request) {
			entered <- true
			<-finish
			io.WriteString(r, "done")
		})
		c := s.Dial()
		c.Send(Get("/"))
		Receive(t, entered)
		if err := Receive(t, s.shutDown(50*ms)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		begun := time.Now()
		close(finish)
		response := c.Response()
		if body, err := io.ReadAll(response.Body); string(body) != "done" || err != nil {
			t.Errorf("got %q, %v", body, err)
		}
		at := c.WantClosed()
		if u.ServesOn { // nobody closes it but we
			NotBefore(t, at, begun, limit)
			s.WantOnly(1, "keep-alive", idle.ReasonRead)
		}
	}},
}

// RunAlone tests what can only be seen while no other test runs: a tracker lives for as
// long as its listener is open or a connection is, and no longer.
func RunAlone(t *testing.T, server Server) {
	trackers := func() int { return strings.Count(stacks(), "idle.(*Tracker).drive(") }
	before := trackers()
	entered, finish := make(chan bool, 1), make(chan bool)
	s := under{server, server.Flavours[0]}.start(t, Timeouts{}, func(r Request) {
		entered <- true
		<-finish
	})
	c := s.Dial()
	c.Send(Get("/"))
	Receive(t, entered)
	down := s.shutDown(Patience)
	time.Sleep(50 * ms)
	if n := trackers() - before; n != 1 {
		t.Errorf("there are %d trackers while a request is in flight", n)
	}
	close(finish)
	c.Response()
	c.Close()
	if err := Receive(t, down); err != nil {
		t.Error(err)
	}
	Eventually(t, "the tracker ends", func() bool { return trackers() == before })
	s.Close()
	s.Close()
}
