package httpconn

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// timesOut has c wait for its peer, and checks in which phase, and after how long, it is
// timed out.
func timesOut(t *testing.T, c *Conn, phase Phase, after time.Duration) {
	t.Helper()
	begun := time.Now()
	c.Read(make([]byte, 1))
	took := time.Since(begun)
	err := c.Timeout()
	if err == nil || err.Phase != phase.String() || took < after || took > after+after/10 {
		t.Errorf("timed out after %v by %v, want %v in the phase %q", took, err, after, phase)
	}
}

// TestHTTP2Phases of a connection.
func TestHTTP2Phases(t *testing.T) {
	limits := distinct()
	for phase, limit := range map[Phase]time.Duration{Handshake: limits.HandshakeTimeout, Streams: limits.StreamTimeout, KeepAlive: limits.KeepAliveTimeout} {
		t.Run(phase.String(), func(t *testing.T) {
			inBubble(t, limits, func(t *testing.T, l *Listener, c *Conn, w *wire) {
				c.prefaceLen = uint8(len(preface))
				c.HeaderRead()
				c.Idle()
				if phase != Handshake {
					c.HeaderRead()
				}
				if phase == KeepAlive {
					c.Idle()
				}
				timesOut(t, c, phase, limit)
			})
		})
	}
}

// TestWatchPings calls the function that Watch was given.
func TestWatchPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c, _ := accepted(t, unlimited())
		c.Hijack()
		var pings atomic.Int32
		beats := idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Second, Timeout: time.Second, Misses: 3}}
		if err := Watch("httpconn", c, beats, httplimits.Callbacks{Ping: func() error { pings.Add(1); return nil }}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if n := pings.Load(); n != 3 {
			t.Errorf("%d pings before it was dropped, want 3", n)
		}
		c.Close()
		l.Close()
	})
}
