package httpsuite

import (
	"context"
	"errors"
	"io"
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
		s := u.start(t, All(Patience), echo)
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
		if st := s.Settled(); st.Closed != 5 {
			t.Errorf("%+v", st)
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
