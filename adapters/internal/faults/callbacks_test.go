//go:build proof

package faults

import (
	"sync/atomic"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// An OnTimeout that blocks delays the end of its own connection only: others are
// asked about and closed meanwhile. Its own is closed when it returns.
func TestOnTimeoutBlocks(t *testing.T) {
	t.Parallel()
	blocked, release := make(chan struct{}), newLatch(t)
	var calls atomic.Int32
	s := startNet(t, idle.Policy{IdleTimeout: limit / 4}, &idlenet.Options{
		OnTimeout: func(*idlenet.Conn, *idle.TimeoutError) bool {
			if calls.Add(1) == 1 {
				close(blocked)
				<-release.ch
			}
			return false
		},
	}, echo)
	first := dial(t, s.address)
	soon(t, blocked, "call of OnTimeout")
	for range 20 {
		awaitEnd(t, dial(t, s.address))
		s.reason(t)
	}
	if n := s.tracker.Stats().Live; n != 1 {
		t.Errorf("%d connections are live, want only the one that is being asked about", n)
	}
	release.release()
	awaitEnd(t, first)
}

// A Ping that blocks delays nobody else's: others are pinged, and closed if they
// do not answer. Its own connection's misses count on, so that it is closed too.
func TestPingBlocks(t *testing.T) {
	t.Parallel()
	release := newLatch(t)
	var pings atomic.Int32
	s := startNet(t, idle.Policy{Heartbeat: idle.Heartbeat{Interval: limit / 4, Timeout: limit / 4, Misses: 2}}, &idlenet.Options{
		Ping: func(c *idlenet.Conn) error {
			if pings.Add(1) == 1 {
				<-release.ch
			}
			_, err := c.Write([]byte("ping"))
			return err
		},
	}, func(c *idlenet.Conn) error {
		b := make([]byte, 100)
		for {
			if _, err := c.Read(b); err != nil {
				return err
			}
		}
	})
	first := dial(t, s.address)
	for range 5 {
		awaitEnd(t, dial(t, s.address))
		if r := s.reason(t); r != idle.ReasonHeartbeat {
			t.Errorf("closed for %v", r)
		}
	}
	awaitEnd(t, first)
	if n := pings.Load(); n < 6 {
		t.Errorf("%d pings, want one for each of 6 connections at least", n)
	}
}
