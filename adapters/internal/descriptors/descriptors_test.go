package descriptors

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

// A short is a listener for whose connections there are few descriptors. Clients are
// always waiting.
type short struct {
	net.Listener
	free   atomic.Int32
	failed int
}

func (l *short) Accept() (net.Conn, error) {
	if l.free.Load() == 0 {
		l.failed++
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	l.free.Add(-1)
	c, _ := net.Pipe()
	return c, nil
}

// inBubble runs test in virtual time, with a tracker that evicts those that have been idle for a second.
func inBubble(t *testing.T, test func(t *testing.T, tracker *idle.Tracker, l *short)) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{IdleTimeout: time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		if err := tracker.SetCapacity(idle.Capacity{MinIdle: time.Second}); err != nil {
			t.Fatal(err)
		}
		test(t, tracker, new(short))
	})
}

// TestAcceptGoesOnSoon has evicted connections close at once. Accept notices soon, or
// attackers whose turn it is to be evicted would keep newcomers waiting.
func TestAcceptGoesOnSoon(t *testing.T) {
	inBubble(t, func(t *testing.T, tracker *idle.Tracker, l *short) {
		const descriptors = 2000
		l.free.Store(descriptors)
		hooks := &idle.Hooks{Expire: func(any, *idle.TimeoutError) { l.free.Add(1) }}
		accept := func(n int) {
			for range n {
				if _, err := Accept(l, tracker); err != nil {
					t.Fatal(err)
				}
				if err := tracker.Track(new(idle.Conn), l, hooks); err != nil {
					t.Fatal(err)
				}
			}
		}
		accept(descriptors)
		begun := time.Now().Add(time.Second) // before, none may be evicted, and Accept tries again and again
		accept(descriptors / 2)
		if took := time.Since(begun); took > 300*time.Millisecond {
			t.Errorf("%d connections were accepted in %v", descriptors/2, took)
		}
	})
}

// TestAcceptDoesNotSpin has none that can be evicted.
func TestAcceptDoesNotSpin(t *testing.T) {
	inBubble(t, func(t *testing.T, tracker *idle.Tracker, l *short) {
		time.AfterFunc(10*time.Second, func() { l.free.Add(1) })
		if _, err := Accept(l, tracker); err != nil || l.failed > 5000 {
			t.Errorf("%v; it failed %d times", err, l.failed)
		}
	})
}

// TestAcceptEndsWithTheTracker: a closed tracker evicts nobody, so Accept fails instead of waiting
// for descriptors.
func TestAcceptEndsWithTheTracker(t *testing.T) {
	inBubble(t, func(t *testing.T, tracker *idle.Tracker, l *short) {
		time.AfterFunc(time.Minute, func() { tracker.Close() })
		if nc, err := Accept(l, tracker); !errors.Is(err, idle.ErrClosed) || !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v, %v", nc, err)
		}
	})
}
