package idlenet

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

func TestInnerConnectionIsClosedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &closeCounter{Conn: first(net.Pipe())}
		server, err := wrapConn(inner, newTracker(t, idle.Policy{IdleTimeout: 50 * time.Millisecond}), nil)
		if err != nil {
			t.Fatal(err)
		}
		wantTimeout(t, read1(server), idle.ReasonIdle)
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if n := inner.closes(); n != 1 {
			t.Errorf("the wrapped connection was closed %d times", n)
		}
	})
}

// lingering notes how it is to linger.
type lingering struct {
	net.Conn
	set chan int
}

func (l lingering) SetLinger(sec int) error { l.set <- sec; return nil }

// The closing of who has timed out does not wait for the peer, if the user would.
func TestTimeoutDoesNotLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := lingering{first(net.Pipe()), make(chan int, 10)}
		server, err := wrapConn(inner, newTracker(t, idle.Policy{IdleTimeout: 50 * time.Millisecond}), nil)
		if err != nil {
			t.Fatal(err)
		}
		server.SetLinger(30)
		wantTimeout(t, read1(server), idle.ReasonIdle)
		time.Sleep(time.Second)
		server.Close()
		if n := len(inner.set); n != 2 || <-inner.set != 30 || <-inner.set != -1 {
			t.Errorf("it was set %d times, or to something else", n)
		}
	})
}

func TestSecondCloseFailsAsThatOfNetDoes(t *testing.T) {
	t.Parallel()
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
	server, _ := connect(t, tracker, nil)
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := server.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want net.ErrClosed", err)
	}
	if err := read1(server); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading gives %v, want net.ErrClosed", err)
	}
	if st := tracker.Stats(); st.Tracked != 1 || st.Closed != 1 || st.Live != 0 {
		t.Errorf("%+v", st)
	}
}

// blockedClose is a connection whose Close takes until it is let go.
type blockedClose struct {
	net.Conn
	release chan struct{}
}

func (c blockedClose) Close() error {
	<-c.release
	return c.Conn.Close()
}

func TestCloseThatBlocksDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{IdleTimeout: 50 * time.Millisecond})
		release := make(chan struct{})
		for range 10 {
			bare, peer := net.Pipe()
			defer peer.Close()
			if _, err := wrapConn(blockedClose{bare, release}, tracker, nil); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Millisecond)
		_, client := pipe(t, tracker, nil)
		start := time.Now()
		err, at := await(t, func() error { return read1(client) })
		if err != io.EOF {
			t.Errorf("the peer got %v, want EOF", err)
		}
		if took := at.Sub(start); took > time.Second {
			t.Errorf("closed after %v", took)
		}
		close(release)
	})
}

func TestTrackerCloseAfterATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker, err := idle.New(idle.Policy{IdleTimeout: 50 * time.Millisecond}, nil)
		if err != nil {
			t.Fatal(err)
		}
		server, client := pipe(t, tracker, nil)
		wantTimeout(t, read1(server), idle.ReasonIdle)
		if live, err := tracker.Close(); len(live) > 0 || err != nil {
			t.Errorf("%d live, error %v", len(live), err)
		}
		if err := read1(client); err != io.EOF {
			t.Errorf("the peer got %v, want EOF", err)
		}
	})
}

func TestWrapFailsAndLeavesTheConnectionAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pinging := newTracker(t, idle.Policy{Heartbeat: idle.Heartbeat{Interval: time.Minute, Timeout: time.Minute}})
		closed, _ := idle.New(idle.Policy{IdleTimeout: time.Minute}, nil)
		closed.Close()
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		if c, err := wrapConn(a, pinging, nil); c != nil || err == nil || !strings.Contains(err.Error(), "set Ping") {
			t.Errorf("WrapConn without a Ping returns %v, %v", c, err)
		}
		if c, err := wrapConn(a, closed, nil); c != nil || !errors.Is(err, idle.ErrClosed) {
			t.Errorf("WrapConn after Close returns %v, %v", c, err)
		}
		go b.Write([]byte("x"))
		if err := read1(a); err != nil {
			t.Error(err)
		}
	})
}

func TestConnectionWrappedTwiceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
		server, _ := pipe(t, tracker, nil)
		if c, err := wrapConn(server, tracker, nil); c != nil || !errors.Is(err, ErrWrapped) {
			t.Errorf("got %v, %v", c, err)
		}
	})
}

// closeCounter counts how often it is closed.
type closeCounter struct {
	net.Conn
	mu sync.Mutex
	n  int
}

func (c *closeCounter) Close() error {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	return c.Conn.Close()
}

func (c *closeCounter) closes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func first[A, B any](a A, _ B) A { return a }

// endTeller tells when the end has been read.
type endTeller struct {
	net.Conn
	end chan struct{}
}

func (c endTeller) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == io.EOF {
		close(c.end)
	}
	return n, err
}

// TestPeerThatHeedsOnEnd: one that hangs up as soon as it is told has timed out
// all the same.
func TestPeerThatHeedsOnEnd(t *testing.T) {
	t.Parallel()
	bare, client := tcpPair(t)
	inner := endTeller{bare, make(chan struct{})}
	opts := &Options{OnEnd: func(*Conn, *idle.TimeoutError) { client.Close(); <-inner.end }}
	server, err := wrapConn(inner, newTracker(t, idle.Policy{IdleTimeout: 50 * time.Millisecond}), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	wantTimeout(t, read1(server), idle.ReasonIdle)
}

// A read during OnEnd has the deadline that the user sets, and Close ends one that
// waits for the end of OnEnd. Both fail with the timeout.
func TestReadsDuringOnEndDoNotOutlastTheirEnd(t *testing.T) {
	const while = 10 * time.Millisecond
	for name, c := range map[string]struct {
		onEnd func(server *Conn, client net.Conn)
	}{
		"deadline": {func(server *Conn, _ net.Conn) { server.SetReadDeadline(time.Now().Add(while)) }},
		"Close":    {func(server *Conn, client net.Conn) { client.Close(); time.Sleep(while); server.Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bare, client := net.Pipe()
				var begun time.Time
				release := make(chan struct{})
				opts := &Options{OnEnd: func(server *Conn, _ *idle.TimeoutError) {
					begun = time.Now()
					c.onEnd(server, client)
					<-release
				}}
				server, err := wrapConn(bare, newTracker(t, idle.Policy{IdleTimeout: 50 * time.Millisecond}), opts)
				if err != nil {
					t.Fatal(err)
				}
				defer server.Close()
				var timeout *idle.TimeoutError
				if err := read1(server); !errors.As(err, &timeout) {
					t.Error(err)
				}
				if took := time.Since(begun); took > 2*while {
					t.Errorf("it took %v", took)
				}
				close(release)
			})
		})
	}
}
