package httpsuite

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

var ofWatch = append(watch, each("WatchedCountsOnce", wraps, map[string][]idle.Policy{
	"handed over":   nil,
	"watched":       {{Name: "lines", IdleTimeout: Patience}},
	"watched twice": {{Name: "lines", IdleTimeout: Patience}, {Name: "others", IdleTimeout: Patience}},
	"freed again":   {{Name: "lines", IdleTimeout: Patience}, {}},
}, watchedCountsOnce)...)

// pings are callbacks that ping by a line.
func pings(h hijacked) httplimits.Callbacks {
	return httplimits.Callbacks{Ping: func() error {
		_, err := io.WriteString(h, "ping\n")
		return err
	}}
}

// watchedCountsOnce tests that a connection that is hijacked, watched, and watched again counts once in the Stats of the
// listener. It also counts once in the Stats of the tracker, which metrics use.
func watchedCountsOnce(t *testing.T, u under, _ string, policies []idle.Policy) {
	h, ended := hijack(func(h hijacked) error {
		for _, p := range policies {
			NoError(t, h.watch(p, httplimits.Callbacks{}))
		}
		return echoLines(h)
	})
	s := u.start(t, Only(Patience), h)
	c := s.Dial()
	c.upgrade()
	c.Send("hello\n")
	c.Line("hello")
	c.Close()
	Receive(t, ended)
	for _, st := range []idle.Stats{s.Settled().Stats, s.Tracker().Stats()} {
		if st.Tracked != 1 || st.Closed != 1 || st.Lifetime.Count() != 1 {
			t.Errorf("%+v", st)
		}
	}
}

var watch = []promise{
	// As with a WebSocket: a peer that answers pings stays connected, and one that stops
	// answering is ended.
	{"Watch", wraps, func(t *testing.T, u under) {
		beat := idle.Heartbeat{Interval: 100 * ms, Timeout: limit, Misses: 2}
		h, ended := hijack(func(h hijacked) error {
			NoError(t, h.watch(idle.Policy{Name: "lines", Heartbeat: beat}, pings(h)))
			return echoLines(h)
		})
		s := u.start(t, All(time.Second), h)
		c := s.Dial()
		c.upgrade()
		var last time.Time
		for range 8 { // the server echoes each pong
			c.Line("ping")
			last = c.Send("pong\n")
			c.Line("pong")
		}
		s.WantNone()
		rest, _ := io.ReadAll(c.In)
		NotBefore(t, time.Now(), last, beat.Interval+2*beat.Timeout)
		if strings.ReplaceAll(string(rest), "ping\n", "") != "" || len(rest) != 2*len("ping\n") {
			t.Errorf("got %q, want two pings", rest)
		}
		wantTimeout(t, Receive(t, ended), "lines", idle.ReasonHeartbeat)
		s.WantOnly(1, "hijacked", idle.ReasonHeartbeat)
		if n := s.Stats().Pings; n < 10 {
			t.Errorf("%d pings", n)
		}
	}},

	// With a passive Heartbeat, the handler reports the client's beats on the hijacked connection.
	// Other input doesn't count.
	{"PassiveHeartbeat", usual, func(t *testing.T, u under) {
		p := idle.Policy{Name: "lines", Heartbeat: idle.Heartbeat{Interval: limit, Passive: true}}
		beats, heard := 0, make(chan bool, 100)
		h, ended := hijack(func(h hijacked) error {
			defer close(heard)
			NoError(t, h.watch(p, httplimits.Callbacks{}))
			for {
				line, err := h.in.ReadString('\n')
				if err != nil {
					return err
				}
				if line == "beat\n" {
					reach[interface{ Beat() }](h.Conn).Beat()
					beats++
					heard <- true
				}
			}
		})
		s := u.start(t, Only(time.Minute), h)
		c := s.Dial()
		c.upgrade()
		var last time.Time
		for range 5 {
			last = c.Send("beat\n")
			if !Receive(t, heard) {
				t.Fatal("it has ended, though beats came")
			}
			time.Sleep(limit / 2)
		}
		defer c.Trickle(strings.Repeat("\n", 10_000), limit/10)()
		NotBefore(t, c.WantClosed(), last, limit)
		wantTimeout(t, Receive(t, ended), "lines", idle.ReasonHeartbeat)
		s.WantOnly(1, "hijacked", idle.ReasonHeartbeat)
		if beats != 5 {
			t.Errorf("ended after %d beats", beats)
		}
	}},

	// With ExplicitUse, answers to pings are no use. IdleTimeout counts from the one message.
	{"ExplicitUse", usual, func(t *testing.T, u under) {
		used := make(chan time.Time, 1)
		p := idle.Policy{Name: "lines", ExplicitUse: true, IdleTimeout: limit, Heartbeat: idle.Heartbeat{Interval: 50 * ms, Timeout: 2 * Patience}}
		h, ended := hijack(func(h hijacked) error {
			NoError(t, h.watch(p, pings(h)))
			for {
				switch line, err := h.in.ReadString('\n'); {
				case err != nil:
					return err
				case line == "hello\n":
					used <- time.Now()
					reach[interface{ Use() }](h.Conn).Use()
				}
			}
		})
		s := u.start(t, Only(time.Minute), h)
		c := s.Dial()
		c.upgrade()
		for pings := 0; ; pings++ {
			if _, err := c.In.ReadString('\n'); err != nil {
				break
			}
			answer := "pong\n"
			if pings == 0 { // in good time before limit
				answer = "hello\n"
			}
			io.WriteString(c, answer)
		}
		NotBefore(t, time.Now(), Receive(t, used), limit)
		wantTimeout(t, Receive(t, ended), "lines", idle.ReasonIdle)
		s.WantOnly(1, "hijacked", idle.ReasonIdle)
	}},

	// Watch refuses invalid policies, and connections that weren't hijacked. Those still work.
	{"WatchRefuses", wraps, func(t *testing.T, u under) {
		refuses := func(err error, says string) { WantError(t, err, u.pkg+": ", says) }
		takeOver, _ := hijack(func(h hijacked) error {
			none := httplimits.Callbacks{}
			refuses(h.watch(idle.Policy{Heartbeat: idle.Heartbeat{Interval: limit, Timeout: limit}}, none), "Callbacks.Ping is nil")
			refuses(h.watch(idle.Policy{IdleTimeout: -1}, none), "IdleTimeout is -1ns")
			return echoLines(h)
		})
		s := u.start(t, Only(time.Minute), func(r request) {
			refuses(r.Watch(nil, idle.Policy{IdleTimeout: time.Minute}, httplimits.Callbacks{}), "was not hijacked")
			takeOver(r)
		})
		c := s.Dial()
		c.Get("/")
		c.upgrade()
		c.Send("hello\n")
		c.Line("hello")
		if n := s.Stats().Panics; n > 0 {
			t.Errorf("%d panics", n)
		}
	}},
}
