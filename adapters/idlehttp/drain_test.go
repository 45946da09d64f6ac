package idlehttp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idletest"
	"github.com/idlewheel/idlewheel/idle"
)

// inBubble runs a test of a server in virtual time. The client dials by pipes.
func inBubble(t *testing.T, limits Timeouts, h http.HandlerFunc, test func(t *testing.T, l *Listener, pipes *idletest.Listener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &http.Server{Handler: h}
		pipes := idletest.NewListener()
		l, err := Wrap(s, pipes, limits)
		if err != nil {
			t.Fatal(err)
		}
		go s.Serve(l)
		defer s.Close()
		test(t, l, pipes)
	})
}

// TestShutdownAgainAtOnce gives up a Shutdown many times, each followed by another one at once.
// None is refused because of the drain before.
func TestShutdownAgainAtOnce(t *testing.T) {
	inBubble(t, Timeouts{}, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(t *testing.T, l *Listener, pipes *idletest.Listener) {
		nc, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		for range 100 {
			if err := Shutdown(ctx, idle.Drain{}, l); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		if err := Shutdown(context.Background(), idle.Drain{ForceAfter: 10 * time.Millisecond}, l); err != nil {
			t.Error(err)
		}
	})
}

// TestLameDuckTakenBack cancels a LameDuck, but not another one that has begun meanwhile.
func TestLameDuckTakenBack(t *testing.T) {
	inBubble(t, Timeouts{}, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, l *Listener, pipes *idletest.Listener) {
		asks := func() bool {
			nc, err := pipes.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			r, err := http.ReadResponse(bufio.NewReader(nc), nil)
			if err != nil {
				t.Fatal(err)
			}
			return r.Close
		}
		ctx, cancel := context.WithCancel(context.Background())
		for _, ctx := range []context.Context{ctx, context.Background()} {
			go LameDuck(ctx, time.Hour, l)
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !l.IsDraining() || !asks() {
			t.Error("the other one is taken back too")
		}
		time.Sleep(2 * time.Hour)
		if !l.IsDraining() || !asks() {
			t.Error("it ends with its time")
		}
	})
	inBubble(t, Timeouts{}, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, l *Listener, pipes *idletest.Listener) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := LameDuck(ctx, time.Hour, l); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if l.IsDraining() {
			t.Error("it isn't taken back")
		}
	})
}

// TestWatchAgainInShutdown gives a WebSocket another policy during a Shutdown. That waits for the
// WebSocket all the same.
func TestWatchAgainInShutdown(t *testing.T) {
	again := make(chan *http.Request, 1)
	inBubble(t, Timeouts{}, func(w http.ResponseWriter, r *http.Request) {
		nc, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		if err := Watch(r, idle.Policy{IdleTimeout: time.Hour}, Callbacks{}); err != nil {
			t.Error(err)
		}
		again <- r
		io.Copy(io.Discard, nc)
	}, func(t *testing.T, l *Listener, pipes *idletest.Listener) {
		nc, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		r := <-again
		begun := time.Now()
		ended := make(chan error, 1)
		go func() {
			ended <- Shutdown(context.Background(), idle.Drain{CloseDelay: time.Minute, ForceAfter: 2 * time.Minute}, l)
		}()
		time.Sleep(time.Second)
		if err := Watch(r, idle.Policy{IdleTimeout: 2 * time.Hour}, Callbacks{}); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if after := time.Since(begun); after < time.Minute {
			t.Errorf("Shutdown has not waited: it ended after %v", after)
		}
		nc.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := nc.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("open after Shutdown: %v", err)
		}
	})
}
