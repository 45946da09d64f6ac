package idlenet

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// An asked connection has a socket that calls back when it is asked for. Track asks
// for it when the tracker has the connection, but its Conn does not know that yet.
type asked struct {
	net.Conn
	asks   atomic.Pointer[func()] // called once
	closes atomic.Int32
}

func (a *asked) SyscallConn() (syscall.RawConn, error) {
	if asks := a.asks.Swap(nil); asks != nil {
		(*asks)()
	}
	return nil, errors.ErrUnsupported
}

func (a *asked) Close() error {
	a.closes.Add(1)
	return a.Conn.Close()
}

func (a *asked) onAsk(f func()) { a.asks.Store(&f) }

// wrapAsked returns a connection that is not tracked.
func wrapAsked(t *testing.T, tracker *idle.Tracker) (*Conn, *asked) {
	a, b := net.Pipe()
	t.Cleanup(func() { b.Close() })
	inner := &asked{Conn: a}
	c, err := Wrap(inner, tracker, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Untrack()
	return c, inner
}

// What comes between the two halves of a Track wins.
func TestTrackIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{IdleTimeout: time.Second})
		c, inner := wrapAsked(t, tracker)
		inner.onAsk(func() { c.Close() })
		if err := c.Track(tracker); err != net.ErrClosed {
			t.Errorf("by Close: %v", err)
		}
		if st := tracker.Stats(); st.Live != 0 {
			t.Errorf("by Close: %+v", st)
		}
		c, inner = wrapAsked(t, tracker)
		inner.onAsk(func() {
			if err := c.Track(tracker); err != nil {
				t.Error(err)
			}
		})
		if err := c.Track(tracker); err != idle.ErrTracked {
			t.Errorf("by another Track: %v", err)
		}
		if st := tracker.Stats(); st.Live != 1 {
			t.Errorf("by another Track: %+v", st)
		}
		c.Close()
		c, inner = wrapAsked(t, tracker)
		inner.onAsk(func() { time.Sleep(2 * time.Second) })
		err := c.Track(tracker)
		var timeout *idle.TimeoutError
		if !errors.As(err, &timeout) || timeout != c.Timeout() {
			t.Errorf("by a timeout: %v", err)
		}
		c.Close()
		if st := tracker.Stats(); st.Live != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A connection that has timed out is closed if nobody does it, and once if somebody
// does, whatever tracked it.
func TestTrackedAgainAndReaped(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			tracker := newTracker(t, idle.Policy{IdleTimeout: time.Second})
			c, inner := wrapAsked(t, tracker)
			if err := c.Track(tracker); err != nil {
				t.Fatal(err)
			}
			wantTimeout(t, read1(c), idle.ReasonIdle)
			if c.Untrack() {
				t.Error("untracked after its timeout")
			}
			if closes {
				c.Close()
			}
			time.Sleep(time.Minute)
			if n := inner.closes.Load(); n != 1 {
				t.Errorf("closed %d times", n)
			}
		})
	}
}
