//go:build proof

package idlegnet

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/idle"
)

// TestHeartbeat has a client that answers pings for a while.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	const interval, timeout = 50 * ms, 300 * ms
	inTime := intime.Of(t, timeout/4)
	s := serve(t, &handler{traffic: discard}, idle.Policy{Heartbeat: idle.Heartbeat{Interval: interval, Timeout: timeout, Misses: 2}}, &Options{Ping: ping})
	nc := dial(t, s.address)
	var last time.Time
	b := make([]byte, 1)
	for range 10 {
		if _, err := nc.Read(b); err != nil || b[0] != '?' {
			inTime.Fatalf("no ping but %q, %v", b, err)
		}
		last = time.Now()
		nc.Write([]byte{'!'})
	}
	if pings, err := io.ReadAll(nc); err != nil || len(pings) != 2 {
		inTime.Errorf("unanswered pings: %q, %v", pings, err)
	}
	s.wantTimeout(t, idle.ReasonHeartbeat, last, interval+2*timeout)
	if st := s.Stats(); st.Pings != 12 || st.Misses != 2 {
		inTime.Errorf("%d pings and %d misses were counted", st.Pings, st.Misses)
	}
}

// TestInputDuringOnTimeout: input that arrives while OnTimeout runs keeps the
// connection, even if OnTimeout then returns false.
func TestInputDuringOnTimeout(t *testing.T) {
	const limit = 500 * ms
	asked, client := 0, make(chan net.Conn, 1)
	s := serve(t, &handler{}, idle.Policy{IdleTimeout: limit}, &Options{
		OnTimeout: func(gnet.Conn, *idle.TimeoutError) bool {
			if asked++; asked == 1 {
				time.Sleep(limit / 4)
				(<-client).Write([]byte("x"))
			}
			return false
		},
	})
	begun := time.Now()
	nc := dial(t, s.address)
	client <- nc
	s.wantTimeout(t, idle.ReasonIdle, begun, limit)
	if got, _ := io.ReadAll(nc); string(got) != "x" || asked != 2 {
		t.Errorf("asked %d times, and the client got the echo %q", asked, got)
	}
}

// TestUserCloses has the user's handler close connections in each callback. OnClose gets no error, and
// nothing is counted but a Close. Only a connection that is closed in OnEnd has been timed out.
func TestUserCloses(t *testing.T) {
	const limit = 20 * ms
	closes := func(c gnet.Conn) { c.EventLoop().Close(c) }
	for name, test := range map[string]struct {
		h    handler
		opts Options
	}{
		"returned by OnOpen":    {h: handler{greeting: []byte("bye"), open: func(gnet.Conn) gnet.Action { return gnet.Close }}},
		"returned by OnTraffic": {h: handler{traffic: func(c gnet.Conn) gnet.Action { return gnet.Close }}},
		"OnTraffic":             {h: handler{traffic: func(c gnet.Conn) gnet.Action { closes(c); return gnet.None }}},
		"Ping":                  {opts: Options{Ping: func(c gnet.Conn) error { closes(c); return nil }}},
		"OnTimeout":             {opts: Options{OnTimeout: func(c gnet.Conn, _ *idle.TimeoutError) bool { closes(c); return false }}},
		"OnEnd":                 {opts: Options{OnEnd: func(c gnet.Conn, _ *idle.TimeoutError) { closes(c) }}},
	} {
		t.Run(name, func(t *testing.T) {
			p := idle.Policy{IdleTimeout: limit}
			if test.h.traffic != nil {
				p.IdleTimeout = time.Minute
			}
			if test.opts.Ping != nil {
				p = idle.Policy{Heartbeat: idle.Heartbeat{Interval: limit, Timeout: limit}}
			}
			s := serve(t, &test.h, p, &test.opts)
			begun := time.Now()
			nc := dial(t, s.address)
			if test.h.traffic != nil {
				nc.Write([]byte("x"))
			}
			if name == "OnEnd" {
				s.wantTimeout(t, idle.ReasonIdle, begun, limit)
			} else if got := receive(t, s.closed); got.err != nil {
				t.Error("OnClose got ", got.err)
			}
			if got, err := io.ReadAll(nc); string(got) != string(test.h.greeting) || err != nil {
				t.Errorf("the client got %q, %v", got, err)
			}
			s.stop(t)
			if st := s.Stats(); st.Closed+st.TimedOut[idle.ReasonIdle] != 1 || len(st.TimedOut) > 0 != (name == "OnEnd") || st.Panics != 0 {
				t.Errorf("it was counted as %+v", st)
			}
		})
	}
}
