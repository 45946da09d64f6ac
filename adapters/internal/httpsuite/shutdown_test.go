package httpsuite

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// shutDown starts the server's own Shutdown, and waits until no connection is accepted any
// more. The channel gets its result.
func (s *Site) shutDown(limit time.Duration) <-chan error {
	s.T.Helper()
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		ended <- s.Setup.Shutdown(ctx)
	}()
	NoError(s.T, s.Served())
	return ended
}

var ofShutdown = []promise{
	// Idle connections are closed at once. That doesn't count as a timeout.
	{"ShutdownOfIdleConnections", everywhere, func(t *testing.T, u under) {
		s := u.start(t, All(Patience), echo)
		var clients []*Client
		for range 5 {
			c := s.Dial()
			c.Get("/")
			clients = append(clients, c)
		}
		NoError(t, Receive(t, s.shutDown(Patience)))
		for _, c := range clients {
			c.WantClosed()
		}
		if st := s.Settled(); st.Closed != 5 {
			t.Errorf("%+v", st)
		}
	}},

	// When Shutdown's context has ended, the limits still apply to the connections that are left.
	{"ShutdownThatGivesUp", usual, func(t *testing.T, u under) {
		entered, finish := make(chan bool, 1), make(chan bool)
		s := u.start(t, Only(limit, "KeepAliveTimeout"), func(r request) {
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
		if u.servesOn { // only our limit closes it
			NotBefore(t, at, begun, limit)
			s.WantOnly(1, "keep-alive", idle.ReasonPhase)
		}
	}},
}
