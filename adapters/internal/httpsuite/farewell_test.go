package httpsuite

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// watching returns a handler that hijacks connections, calls Watch, and then use. The channel
// gets the results of use.
func watching(t *testing.T, p idle.Policy, callbacks func(net.Conn) httplimits.Callbacks, use func(net.Conn) error) (func(request), chan error) {
	ended := make(chan error, 10)
	return func(r request) {
		r.Hijack(func(c net.Conn, _ *bufio.Reader) {
			defer c.Close()
			io.WriteString(c, "ready\n")
			NoError(t, r.Watch(c, p, callbacks(c)))
			ended <- use(c)
		})
	}, ended
}

// readAll reads until the end.
func readAll(c net.Conn) error {
	_, err := io.Copy(io.Discard, c)
	return err
}

func ofFarewells() []promise {
	return append(farewells, each("FarewellFails", usual, map[string]bool{"not taken": false, "panics": true}, farewellFails)...)
}

var farewells = []promise{
	// OnEnd of a watched connection may write a farewell. Then the connection ends.
	{"Farewell", wraps, func(t *testing.T, u under) {
		h, ended := watching(t, idle.Policy{IdleTimeout: limit}, func(c net.Conn) httplimits.Callbacks {
			return httplimits.Callbacks{OnEnd: func(err *idle.TimeoutError) { io.WriteString(c, "bye after "+err.Setting+"\n") }}
		}, readAll)
		s := u.start(t, Off(), h)
		c := s.Dial()
		begun := c.Send(Upgrade)
		c.Line("ready")
		c.Line("bye after IdleTimeout")
		NotBefore(t, c.WantClosed(), begun, limit)
		wantTimeout(t, Receive(t, ended), "hijacked", idle.ReasonIdle)
		s.WantOnly(1, "hijacked", idle.ReasonIdle)
	}},

	// At MaxAge, OnDrain of a watched connection is called. The age counts from the accept.
	{"AskedToFinish", wraps, func(t *testing.T, u under) {
		h, ended := watching(t, idle.Policy{MaxAge: limit, MaxAgeGrace: Patience}, func(c net.Conn) httplimits.Callbacks {
			return httplimits.Callbacks{OnDrain: func() { io.WriteString(c, "enough\n") }}
		}, readAll)
		s := u.start(t, Off(), h)
		begun := time.Now()
		c := s.Dial()
		c.upgrade()
		c.Line("enough")
		NotBefore(t, time.Now(), begun, limit)
		c.Close()
		if err := Receive(t, ended); !IsEnd(err) {
			t.Errorf("it ended with %v", err)
		}
		s.WantNone()
	}},
}

// farewellFails tests that the connection also ends if the client doesn't read the farewell, or if OnEnd panics.
func farewellFails(t *testing.T, u under, _ string, panics bool) {
	if !panics && u.secure && u.listen == nil {
		t.Skip("the farewell waits for a mutex of crypto/tls, so virtual time would stand still")
	}
	told, over := make(chan error, 1), make(chan bool)
	use := readAll
	if !panics {
		use = func(c net.Conn) error {
			_, err := c.Write(Large)
			<-over // fasthttp reuses c once the handler has returned
			return err
		}
	}
	h, ended := watching(t, idle.Policy{IdleTimeout: limit}, func(c net.Conn) httplimits.Callbacks {
		return httplimits.Callbacks{OnEnd: func(*idle.TimeoutError) {
			if panics {
				panic("on purpose")
			}
			defer close(over)
			_, err := c.Write(Large)
			told <- err
		}}
	}, use)
	to := Off()
	to.Idle.Logger = slog.New(slog.DiscardHandler)
	s := u.start(t, to, h)
	c := s.Dial()
	c.Narrow(16 << 10)
	c.Send(Upgrade)
	c.Line("ready")
	if !panics {
		if err := Receive(t, told); err == nil {
			t.Error("the farewell was taken")
		}
	}
	if err := Receive(t, ended); err == nil {
		t.Error("the connection goes on")
	}
	s.WantOnly(1, "hijacked", idle.ReasonIdle)
	if n := s.Stats().Panics; n > 0 != panics {
		t.Errorf("%d panics", n)
	}
}
