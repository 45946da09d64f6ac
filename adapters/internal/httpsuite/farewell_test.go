package httpsuite

import (
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

func ofFarewells() []promise {
	return append(farewells, each("FarewellFails", usual, map[string]bool{"not taken": false, "panics": true}, farewellFails)...)
}

var farewells = []promise{
	// OnEnd of a watched connection may write a farewell. Then the connection ends.
	{"Farewell", wraps, func(t *testing.T, u under) {
		h, ended := hijack(watched(t, idle.Policy{IdleTimeout: limit}, func(c net.Conn) httplimits.Callbacks {
			return httplimits.Callbacks{OnEnd: func(err *idle.TimeoutError) { io.WriteString(c, "bye after "+err.Setting+"\n") }}
		}))
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
		h, ended := hijack(watched(t, idle.Policy{MaxAge: limit, MaxAgeGrace: Patience}, func(c net.Conn) httplimits.Callbacks {
			return httplimits.Callbacks{OnDrain: func() { io.WriteString(c, "enough\n") }}
		}))
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
	h, ended := hijack(func(h hijacked) (err error) {
		NoError(t, h.watch(idle.Policy{IdleTimeout: limit}, httplimits.Callbacks{OnEnd: func(*idle.TimeoutError) {
			if panics {
				panic("on purpose")
			}
			defer close(over)
			_, err := h.Write(Large)
			told <- err
		}}))
		if panics {
			_, err = io.Copy(io.Discard, h.in)
			return err
		}
		_, err = h.Write(Large)
		<-over // fasthttp reuses the connection once the handler has returned
		return err
	})
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
