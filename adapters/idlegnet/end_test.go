//go:build proof

package idlegnet

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/idle"
)

// TestOnEnd has connections end for several reasons. Each client is told which.
func TestOnEnd(t *testing.T) {
	for want, test := range map[string]struct {
		policy idle.Policy
		end    func(s *server) error
	}{
		"idle": {idle.Policy{IdleTimeout: 50 * ms}, func(*server) error { return nil }},
		"shed": {idle.Policy{IdleTimeout: time.Hour}, func(s *server) error {
			return s.Tracker().Visit(context.Background(), func(i idle.Info) { i.End("test") })
		}},
		"drain": {idle.Policy{IdleTimeout: time.Hour}, func(s *server) error {
			_, err := s.Tracker().Drain(idle.Drain{})
			return err
		}},
	} {
		t.Run(want, func(t *testing.T) {
			closed, onClose := closings()
			opened := make(chan struct{}, 2)
			s := serve(t, &handler{close: onClose, open: func(gnet.Conn) ([]byte, gnet.Action) {
				opened <- struct{}{}
				return nil, gnet.None
			}}, test.policy, &Options{OnEnd: func(c gnet.Conn, err *idle.TimeoutError) {
				c.Write([]byte("ended: " + err.Reason.String()))
			}}, tcp())
			nc := dial(t, s.address)
			receive(t, opened)
			if err := test.end(s); err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(nc); string(b) != "ended: "+want || err != nil {
				t.Errorf("the client reads %q, %v", b, err)
			}
			var timeout *idle.TimeoutError
			if got := receive(t, closed); !errors.As(got.err, &timeout) || timeout.Reason.String() != want {
				t.Errorf("OnClose got %v", got.err)
			}
		})
	}
}

// TestOnEndThatCloses closes the connection inside OnEnd. OnClose gets the timeout all the same.
func TestOnEndThatCloses(t *testing.T) {
	closed, onClose := closings()
	s := serve(t, &handler{close: onClose}, idle.Policy{IdleTimeout: 20 * ms}, &Options{
		OnEnd: func(c gnet.Conn, _ *idle.TimeoutError) { c.EventLoop().Close(c) },
	}, tcp())
	dial(t, s.address)
	var timeout *idle.TimeoutError
	if got := receive(t, closed); !errors.As(got.err, &timeout) || timeout.Reason != idle.ReasonIdle {
		t.Error("OnClose got ", got.err)
	}
	s.engine.CountConnections()
	if st := s.Stats(); st.TimedOut[idle.ReasonIdle] != 1 || st.Panics != 0 {
		t.Errorf("%+v", st)
	}
}
