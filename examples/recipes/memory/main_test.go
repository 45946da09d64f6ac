package main

import (
	"errors"
	"io"
	"math"
	"net"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/adapters/idletest"
	"github.com/idlewheel/idlewheel/idle"
)

// start returns a server in virtual time, and the listener to dial.
func start(t *testing.T) (*idletest.Listener, *idlenet.Listener) {
	t.Helper()
	pipes := idletest.NewListener()
	l, err := idlenet.Wrap(pipes, idle.Policy{IdleTimeout: 10 * time.Minute}, nil)
	if err != nil {
		t.Fatal(err)
	}
	go serve(l)
	return pipes, l
}

// TestLimits has silent clients connect while some percentage of the memory is in use.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes, l := start(t)
		defer l.Close()
		var percent atomic.Int64
		broken, stopped := errors.New("unreadable"), make(chan error, 1)
		used := func() (share float64, err error) {
			if percent.Load() < 0 {
				err = broken
			}
			return float64(percent.Load()) / 100, err
		}
		go func() { stopped <- follow(l.Tracker(), used) }()
		for _, step := range []struct {
			percent, later int64 // a second after the client has connected
			want           time.Duration
		}{
			{80, 80, 10 * time.Minute},
			{80, 90, 10 * time.Second}, // a client that's connected already
			{90, 80, 10 * time.Second}, // between the thresholds the limits stay
			{80, 70, 10 * time.Minute},
		} {
			percent.Store(step.percent)
			time.Sleep(2 * time.Second) // until it's read
			conn, err := pipes.Dial()
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			time.Sleep(time.Second)
			percent.Store(step.later)
			if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
				t.Error(err)
			}
			if got := time.Since(begun).Round(time.Second); got != step.want {
				t.Errorf("at %d and then %d %% a silent client is closed after %v, want %v", step.percent, step.later, got, step.want)
			}
		}
		percent.Store(-1)
		if err := <-stopped; err != broken {
			t.Error("follow:", err)
		}
	})
}

// TestShed: of clients that are idle, some are ended, and of those that aren't, none.
func TestShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes, l := start(t)
		defer l.Close()
		const clients = 200
		var busy []net.Conn
		for i := range clients {
			conn, err := pipes.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if i%2 == 0 {
				busy = append(busy, conn)
			}
		}
		time.Sleep(2 * time.Second)
		for _, conn := range busy {
			conn.Write([]byte("x"))
			conn.Read(make([]byte, 1))
		}
		n, err := shed(l.Tracker(), time.Second, 0.5)
		time.Sleep(100 * time.Millisecond)
		if st := l.Tracker().Stats(); err != nil || n < 10 || n > 90 || st.Causes["memory"] != uint64(n) || st.Live != clients-st.Shed {
			t.Errorf("%d of %d idle clients are shed, %v; %+v", n, clients/2, err, st)
		}
		_, err = shed(l.Tracker(), time.Second, 1)
		time.Sleep(100 * time.Millisecond)
		if live := l.Tracker().Stats().Live; err != nil || live != clients/2 {
			t.Errorf("%d clients are left, want those %d that aren't idle; %v", live, clients/2, err)
		}
	})
}

func TestHeap(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	if _, err := heap(); err == nil || !strings.Contains(err.Error(), "GOMEMLIMIT") {
		t.Errorf("without a limit: %v", err)
	}
	debug.SetMemoryLimit(1 << 30)
	if share, err := heap(); err != nil || share <= 0 || share >= 1 {
		t.Errorf("of 1 GiB: %v, %v", share, err)
	}
}
