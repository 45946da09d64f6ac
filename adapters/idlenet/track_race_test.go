package idlenet

import (
	"errors"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
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
	c, err := wrapConn(inner, tracker, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.conn().Untrack()
	return c, inner
}

// What comes between the two halves of a Track wins.
func TestTrackIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{IdleTimeout: time.Second})
		c, inner := wrapAsked(t, tracker)
		inner.onAsk(func() { c.Close() })
		if err := c.conn().Track(tracker, c); err != net.ErrClosed {
			t.Errorf("by Close: %v", err)
		}
		if st := tracker.Stats(); st.Live != 0 {
			t.Errorf("by Close: %+v", st)
		}
		c, inner = wrapAsked(t, tracker)
		inner.onAsk(func() {
			inner.onAsk(func() {})
			if err := c.conn().Track(tracker, c); err != nil {
				t.Errorf("another Track meanwhile: %v", err)
			}
		})
		if err := c.conn().Track(tracker, c); err != idle.ErrTracked {
			t.Errorf("by another Track: %v", err)
		}
		if st := tracker.Stats(); st.Live != 1 {
			t.Errorf("by another Track: %+v", st)
		}
		c.Close()
		c, inner = wrapAsked(t, tracker)
		inner.onAsk(func() { time.Sleep(2 * time.Second) })
		err := c.conn().Track(tracker, c)
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

// An ending connection fails each Read and Write, with an error that calls back when it
// is looked at. By then the operation has found out by what its connection is tracked,
// and has not reported its end yet.
type ending struct {
	net.Conn
	called func()
}

func (e *ending) Read([]byte) (int, error)  { return 0, e }
func (e *ending) Write([]byte) (int, error) { return 0, e }
func (e *ending) Error() string             { return "the end" }

func (e *ending) Is(error) bool {
	if called := e.called; called != nil {
		e.called = nil
		called()
	}
	return false
}

// TestTrackMeetsTheEndOfAnOperation tracks a connection just as a read, or a write, of
// its ends. Afterwards nobody reads or writes, and it is not timed out.
func TestTrackMeetsTheEndOfAnOperation(t *testing.T) {
	const limit = time.Second
	for name, op := range map[string]func(net.Conn) error{
		"read":  read1,
		"write": func(c net.Conn) error { _, err := c.Write([]byte("x")); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tracker := newTracker(t, idle.Policy{ReadTimeout: limit, WriteTimeout: limit})
				bare, client := net.Pipe()
				defer client.Close()
				inner := &ending{Conn: bare}
				c, err := wrapConn(inner, tracker, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				c.conn().Untrack()
				tracked := false
				inner.called = func() {
					tracked = true
					if err := c.conn().Track(tracker, c); err != nil {
						t.Error(err)
					}
				}
				if err := op(c); err != inner || !tracked {
					t.Fatalf("the operation ended with %v, tracked meanwhile: %v", err, tracked)
				}
				time.Sleep(3 * limit)
				if st := tracker.Stats(); len(st.TimedOut) > 0 {
					t.Errorf("nobody reads or writes, but %v", st.TimedOut)
				}
			})
		})
	}
}

// TestTrackRacesARead does as TestTrackMeetsTheEndOfAnOperation for many reads, at
// whatever point of their end.
func TestTrackRacesARead(t *testing.T) {
	const limit = time.Second
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{ReadTimeout: limit})
		for range 5000 {
			c, client := pipe(t, tracker, nil)
			c.conn().Untrack()
			var both sync.WaitGroup
			both.Go(func() { go client.Write([]byte("x")); read1(c) })
			both.Go(func() {
				for range rand.IntN(20) {
					runtime.Gosched()
				}
				if err := c.conn().Track(tracker, c); err != nil {
					t.Error(err)
				}
			})
			both.Wait()
		}
		time.Sleep(3 * limit)
		if st := tracker.Stats(); len(st.TimedOut) > 0 {
			t.Errorf("nobody reads, but %v", st.TimedOut)
		}
	})
}

// TestTrackWhileItTimesOut tracks a connection while its OnEnd runs: it has its outcome.
func TestTrackWhileItTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, other := newTracker(t, idle.Policy{IdleTimeout: time.Second}), newTracker(t, idle.Policy{IdleTimeout: time.Hour})
		ends := 0
		c, _ := pipe(t, first, &Options{OnEnd: func(*Conn, *idle.TimeoutError) { ends++; time.Sleep(500 * time.Millisecond) }})
		time.Sleep(1200 * time.Millisecond)
		var timeout *idle.TimeoutError
		if err := c.conn().Track(other, c); c.conn().Untrack() || !errors.As(err, &timeout) {
			t.Errorf("tracked anew while it timed out: %v", err)
		}
		time.Sleep(time.Second)
		if err := c.conn().Track(other, c); !errors.As(err, &timeout) {
			t.Errorf("tracked anew after its timeout: %v", err)
		}
		time.Sleep(2 * time.Hour)
		if st := other.Stats(); st.Tracked != 0 || ends != 1 {
			t.Errorf("%+v; OnEnd was called %d times", st, ends)
		}
	})
}

// TestTrackWhatWasHandedBack gives the connections of a tracker that was closed to
// another one.
func TestTrackWhatWasHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, err := idle.New(idle.Policy{IdleTimeout: time.Second}, nil)
		if err != nil {
			t.Fatal(err)
		}
		pipe(t, first, nil)
		live, err := first.Close()
		if err != nil || len(live) != 1 {
			t.Fatal(live, err)
		}
		c := live[0].(*Conn)
		if err := c.conn().Track(newTracker(t, idle.Policy{IdleTimeout: time.Second}), c); err != nil {
			t.Fatal(err)
		}
		wantTimeout(t, read1(c), idle.ReasonIdle)
	})
}

// TestTrackedAgainAndClosedOnce: the connection inside is closed once, by the timeout or by the server too, whatever has tracked it.
func TestTrackedAgainAndClosedOnce(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			tracker := newTracker(t, idle.Policy{IdleTimeout: time.Second})
			c, inner := wrapAsked(t, tracker)
			if err := c.conn().Track(tracker, c); err != nil {
				t.Fatal(err)
			}
			wantTimeout(t, read1(c), idle.ReasonIdle)
			if c.conn().Untrack() {
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
