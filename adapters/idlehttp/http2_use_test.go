package idlehttp

import (
	"slices"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// keepalives are frames that carry no request or response. A client that sends them forever
// doesn't use its connection.
var keepalives = map[string]string{
	"PING":          ping,
	"PING, ACK":     frame(typePing, 1, 0, "12345678"),
	"SETTINGS":      frame(typeSettings, 0, 0, ""),
	"WINDOW_UPDATE": frame(typeWindowUpdate, 0, 0, number(1)),
	"PRIORITY":      frame(typePriority, 0, 1, "\x00\x00\x00\x00\x01"),
	"unknown":       frame(99, 0, 0, "?"),
}

// TestHTTP2KeepAliveTimeoutBesideKeepalives: the limit passes although the client sends such
// frames every 20 ms, and the server answers them.
func TestHTTP2KeepAliveTimeoutBesideKeepalives(t *testing.T) {
	const limit = 3 * time.Second
	for name, text := range keepalives {
		t.Run(name, func(t *testing.T) {
			virtual(t, httpsuite.Only(limit, "KeepAliveTimeout"), defaultWindow, answers, func(t *testing.T, f framed) {
				begun := f.get(1)
				f.again(text, 20*time.Millisecond)
				if took := f.Drain().Sub(begun); took < limit || took > limit+2*time.Second {
					t.Errorf("it ends after %v, want %v", took, limit)
				}
				if n := f.site.Stats().Limits["KeepAliveTimeout"]; n != 1 {
					t.Errorf("ended by %v", f.site.Stats().Limits)
				}
			})
		})
	}
}

// TestHTTP2IdleBesideKeepalives: evictions, drains and EndIfIdle go by use. alice sends keepalives
// for a minute, and bob has made a request meanwhile.
func TestHTTP2IdleBesideKeepalives(t *testing.T) {
	for name, text := range keepalives {
		t.Run(name, func(t *testing.T) {
			virtual(t, httpsuite.Off(), defaultWindow, answers, func(t *testing.T, alice framed) {
				bob := alice.site.another()
				alice.get(1)
				bob.get(1)
				alice.again(text, 20*time.Millisecond)
				go alice.Drain()
				time.Sleep(50 * time.Second)
				bob.get(3)
				time.Sleep(10 * time.Second)
				tracker := alice.site.Tracker()
				var idles []time.Duration
				if err := tracker.Visit(t.Context(), func(i idle.Info) {
					idles = append(idles, i.Idle)
					if i.Idle > 30*time.Second {
						i.EndIfIdle("idle")
					}
				}); err != nil {
					t.Fatal(err)
				}
				slices.Sort(idles)
				if len(idles) != 2 || idles[0] > 11*time.Second || idles[1] < 59*time.Second {
					t.Errorf("they are idle for %v", idles)
				}
				time.Sleep(time.Second)
				if n := tracker.Stats().Shed; n != 1 {
					t.Errorf("%d were shed, want alice", n)
				}
				bob.get(5)
			})
		})
	}
}

// TestHTTP2EvictionBesideKeepalives has a newcomer take the place of the connection that only
// pings.
func TestHTTP2EvictionBesideKeepalives(t *testing.T) {
	virtual(t, httpsuite.Off(), defaultWindow, answers, func(t *testing.T, alice framed) {
		bob := alice.site.another()
		alice.get(1)
		bob.get(1)
		if err := alice.site.Tracker().SetCapacity(idle.Capacity{MaxConns: 2, MinIdle: 30 * time.Second}); err != nil {
			t.Fatal(err)
		}
		alice.again(ping, 20*time.Millisecond)
		go alice.Drain()
		time.Sleep(50 * time.Second)
		bob.get(3)
		time.Sleep(time.Second)
		alice.site.another().get(1)
		bob.get(5)
		if n := alice.site.Tracker().Stats().Evicted; n != 1 {
			t.Errorf("%d were evicted", n)
		}
	})
}
