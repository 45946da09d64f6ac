//go:build proof

package idlenet

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

func TestServerThatDoesNothingIsClosed(t *testing.T) {
	t.Parallel()
	const limit = 50 * time.Millisecond
	server, client := connect(t, newTracker(t, idle.Policy{IdleTimeout: limit}), nil)
	start := time.Now()
	err, at := await(t, func() error { return readAll(client) })
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the client got %v", err)
	}
	notBefore(t, at, start, limit)
	wantTimeout(t, read1(server), idle.ReasonIdle)
	if _, err := server.NetConn().Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("writing past the wrapper gives %v, want net.ErrClosed", err)
	}
}

func TestCloseAfterATimeoutIsNoError(t *testing.T) {
	t.Parallel()
	server, client := connect(t, newTracker(t, idle.Policy{IdleTimeout: 50 * time.Millisecond}), nil)
	await(t, func() error { return readAll(client) })
	for range 2 {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCloseDisturbsPendingRead(t *testing.T) {
	t.Parallel()
	server, _ := connect(t, newTracker(t, idle.Policy{IdleTimeout: time.Minute}), nil)
	time.AfterFunc(20*time.Millisecond, func() { server.Close() })
	err, _ := await(t, func() error { return read1(server) })
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want net.ErrClosed", err)
	}
}

func TestNothingIsLeftOfTimedOutConnections(t *testing.T) {
	first, err := net.Listen("tcp", "127.0.0.1:0") // with it, the runtime opens descriptors that stay open
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	func() {
		tracker, err := idle.New(idle.Policy{IdleTimeout: 30 * time.Millisecond}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		wrapped := share(t, ln, tracker, nil)
		var wait sync.WaitGroup
		for i := range 50 {
			client, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			server, err := wrapped.Accept()
			if err != nil {
				t.Fatal(err)
			}
			wait.Go(func() {
				readAll(client)
				client.Close()
			})
			switch i % 3 { // some servers close, some ignore the error, some never look
			case 0:
				wait.Go(func() { readAll(server); server.Close() })
			case 1:
				wait.Go(func() { readAll(server) })
			}
		}
		wait.Wait()
		wrapped.Close()
		if live, _ := tracker.Close(); len(live) > 0 {
			t.Errorf("%d live", len(live))
		}
	}()
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines })
	eventually(t, "no descriptor is left", func() bool { return openFiles(t) <= files })
}

// openFiles counts the process's descriptors, if that is easy.
func openFiles(t *testing.T) int {
	if runtime.GOOS != "linux" {
		return 0
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

func TestTrackerCloseHandsBackLiveConnections(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]*Options{
		"": nil, "with OnTimeout": {OnTimeout: func(*Conn, *idle.TimeoutError) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			tracker, err := idle.New(idle.Policy{IdleTimeout: time.Minute, ReadTimeout: 50 * time.Millisecond}, nil)
			if err != nil {
				t.Fatal(err)
			}
			server, client := connect(t, tracker, opts)
			live, err := tracker.Close()
			if err != nil || len(live) != 1 {
				t.Fatalf("handed back %v, error %v", live, err)
			}
			back, ok := live[0].(net.Conn) // else users of this package could do nothing with it
			if !ok || back.RemoteAddr() != server.RemoteAddr() {
				t.Fatalf("handed back a %T", live[0])
			}
			go io.Copy(client, client)
			for range 3 {
				if _, err := server.Write([]byte("hello")); err != nil {
					t.Fatal(err)
				}
				if err := read1(server); err != nil {
					t.Fatal(err)
				}
				time.Sleep(100 * time.Millisecond)
			}
			server.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			wantUserTimeout(t, read1(server))
			if err := back.Close(); err != nil {
				t.Error(err)
			}
			if err := read1(server); !errors.Is(err, net.ErrClosed) {
				t.Errorf("after Close of what was handed back: %v", err)
			}
		})
	}
}

func TestAcceptAfterTrackerCloseFailsAndClosesTheSocket(t *testing.T) {
	t.Parallel()
	tracker, err := idle.New(idle.Policy{IdleTimeout: time.Minute}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tracker.Close()
	acceptFails(t, func(ln net.Listener) net.Listener { return share(t, ln, tracker, nil) }, net.ErrClosed.Error()+": "+idle.ErrClosed.Error())
}

// hiding is a listener that doesn't show which one it uses.
type hiding struct{ inner net.Listener }

func (h hiding) Accept() (net.Conn, error) { return h.inner.Accept() }
func (h hiding) Close() error              { return h.inner.Close() }
func (h hiding) Addr() net.Addr            { return h.inner.Addr() }

// TestListenerWrappedTwiceUnseenFails has another listener in between.
func TestListenerWrappedTwiceUnseenFails(t *testing.T) {
	t.Parallel()
	tracker := newTracker(t, idle.Policy{IdleTimeout: time.Minute})
	acceptFails(t, func(ln net.Listener) net.Listener {
		return share(t, hiding{share(t, ln, tracker, nil)}, tracker, nil)
	}, ErrWrapped.Error())
	if st := tracker.Stats(); st.Live != 0 || st.Tracked != st.Closed {
		t.Errorf("%+v", st)
	}
}

// acceptFails checks that a listener's Accept fails, and the client sees it.
func acceptFails(t *testing.T, wrap func(net.Listener) net.Listener, text string) {
	t.Helper()
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := wrap(bare)
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if c, err := ln.Accept(); c != nil || err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("Accept returns %v, %v; want an error with %q", c, err, text)
	}
	if err, _ := await(t, func() error { return read1(client) }); err == nil {
		t.Error("the client's connection lives")
	}
}

// TestFarewellAfterThePeerHasHungUp has a peer that sends no more as soon as OnEnd has begun to write. The server, which reads
// until an error and then closes, doesn't cut the rest of the farewell.
func TestFarewellAfterThePeerHasHungUp(t *testing.T) {
	t.Parallel()
	bare, client := tcpPair(t)
	inner := endTeller{bare, make(chan struct{})}
	opts := &Options{OnEnd: func(c *Conn, _ *idle.TimeoutError) {
		c.Write([]byte("by"))
		<-inner.end
		time.Sleep(20 * time.Millisecond)
		c.Write([]byte("e"))
	}}
	server, err := wrapConn(inner, newTracker(t, idle.Policy{IdleTimeout: 50 * time.Millisecond}), opts)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		wantTimeout(t, read1(server), idle.ReasonIdle)
		server.Close()
	}()
	io.ReadFull(client, make([]byte, 2))
	client.CloseWrite()
	if rest, err := io.ReadAll(client); string(rest) != "e" || err != nil {
		t.Errorf("the rest of the farewell is %q, %v", rest, err)
	}
}

// TestOnEndThatReads gets an error, and does not wait for itself.
func TestOnEndThatReads(t *testing.T) {
	t.Parallel()
	bare, client := tcpPair(t)
	read := make(chan error, 1)
	opts := &Options{OnEnd: func(c *Conn, _ *idle.TimeoutError) {
		client.Close()
		read <- read1(c)
	}}
	server, err := wrapConn(bare, newTracker(t, idle.Policy{IdleTimeout: 50 * time.Millisecond}), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	select {
	case err := <-read:
		if err == nil {
			t.Error("it has read something")
		}
	case <-time.After(patience):
		t.Fatal("OnEnd waits for itself")
	}
}
