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

// TestAcceptGoesOnSoon has evicted connections close at once. Accept notices soon, or
// attackers whose turn it is to be evicted would keep newcomers waiting.
func TestAcceptGoesOnSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{IdleTimeout: time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		const descriptors = 2000
		l := new(short)
		l.free.Store(descriptors)
		hooks := &idle.Hooks{Expire: func(any, *idle.TimeoutError) { l.free.Add(1) }}
		accept := func() {
			if _, err := Accept(l, tracker); err != nil {
				t.Fatal(err)
			}
			if err := tracker.Track(new(idle.Conn), l, hooks); err != nil {
				t.Fatal(err)
			}
		}
		for range descriptors {
			accept()
		}
		if err := tracker.SetCapacity(idle.Capacity{MinIdle: time.Second}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		begun := time.Now()
		for range descriptors / 2 {
			accept()
		}
		if took := time.Since(begun); took > 300*time.Millisecond {
			t.Errorf("%d connections were accepted in %v", descriptors/2, took)
		}
	})
}

// TestAcceptDoesNotSpin has none that can be evicted.
func TestAcceptDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{IdleTimeout: time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		if err := tracker.SetCapacity(idle.Capacity{MinIdle: time.Second}); err != nil {
			t.Fatal(err)
		}
		l := new(short)
		time.AfterFunc(10*time.Second, func() { l.free.Add(1) })
		if _, err := Accept(l, tracker); err != nil || l.failed > 5000 {
			t.Errorf("%v; it failed %d times", err, l.failed)
		}
	})
}

// TestAcceptEndsWithTheTracker: a closed tracker evicts nobody, so Accept fails instead of waiting
// for descriptors.
func TestAcceptEndsWithTheTracker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{IdleTimeout: time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := tracker.SetCapacity(idle.Capacity{MinIdle: time.Second}); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() { tracker.Close() })
		if nc, err := Accept(new(short), tracker); !errors.Is(err, idle.ErrClosed) {
			t.Errorf("got %v, %v", nc, err)
		}
	})
}
