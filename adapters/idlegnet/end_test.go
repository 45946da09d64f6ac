//go:build proof

package idlegnet

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// TestEnds has connections end for several reasons, from the loop and from elsewhere. Each client is
// told which. OnTimeout is asked about a limit only, and OnDrain comes before a drain's end and MaxAge's.
func TestEnds(t *testing.T) {
	hour := idle.Policy{IdleTimeout: time.Hour}
	for want, test := range map[string]struct {
		policy idle.Policy
		end    func(t *testing.T, s *server)
	}{
		"idle":    {policy: idle.Policy{IdleTimeout: 50 * ms}},
		"max_age": {policy: idle.Policy{MaxAge: 50 * ms, MaxAgeGrace: 100 * ms}},
		"shed": {hour, func(t *testing.T, s *server) {
			var conn *Conn
			c := receive(t, s.opened)
			onLoop(t, c, func() { conn = s.Conn(c) })
			conn.End("banned")
		}},
		"drain": {hour, func(t *testing.T, s *server) {
			if _, err := s.Tracker().Drain(idle.Drain{}); err != nil {
				t.Error(err)
			}
		}},
		"evict": {hour, func(t *testing.T, s *server) { dial(t, s.address) }},
	} {
		t.Run(want, func(t *testing.T) {
			asked := 0
			s := serve(t, &handler{}, test.policy, &Options{
				OnTimeout: func(gnet.Conn, *idle.TimeoutError) bool { asked++; return false },
				OnDrain:   func(c gnet.Conn) { c.Write([]byte("finish, ")) },
				OnEnd:     func(c gnet.Conn, err *idle.TimeoutError) { c.Write([]byte("ended: " + err.Reason.String())) },
				Capacity:  idle.Capacity{MaxConns: 1},
			})
			begun := time.Now()
			nc := dial(t, s.address)
			await(t, func() bool { return len(s.opened) > 0 })
			if test.end != nil {
				test.end(t, s)
			}
			told, drained := "ended: "+want, want == "max_age" || want == "drain"
			if drained {
				told = "finish, " + told
			}
			if b, err := io.ReadAll(nc); string(b) != told || err != nil {
				t.Errorf("the client reads %q, %v", b, err)
			}
			got := receive(t, s.closed)
			var timeout *idle.TimeoutError
			if !errors.As(got.err, &timeout) || timeout.Reason.String() != want || timeout.Cause != map[bool]string{true: "banned"}[want == "shed"] {
				t.Errorf("OnClose got %v", got.err)
			}
			if passed := got.at.Sub(begun); passed < test.policy.MaxAge+test.policy.MaxAgeGrace {
				t.Errorf("closed after %v", passed)
			}
			if asked > 0 != (want == "idle") {
				t.Errorf("OnTimeout was asked %d times", asked)
			}
		})
	}
}
