//go:build proof && !idleother

package kernel

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestQueue writes to a Unix socket more than fits into its queue. What arrives is
// what was written, and each wait is told of, with what was written before.
func TestQueue(t *testing.T) {
	server, client := connect(t, "unix", filepath.Join(t.TempDir(), "s"))
	var mu sync.Mutex
	var waits []int
	q, _ := Queue(server.(*net.UnixConn), waiterFunc(func(n int) {
		mu.Lock()
		defer mu.Unlock()
		waits = append(waits, n)
	}))
	if Unwrap(q) != server {
		t.Error("it hides what it was made of")
	}
	sent := make([]byte, 4<<20)
	for i := range sent {
		sent[i] = byte(i / 1000)
	}
	written := make(chan error, 1)
	go func() {
		n, err := q.Write(sent)
		if err == nil && n < len(sent) {
			err = io.ErrShortWrite
		}
		written <- err
	}()
	eventually(t, "it waits", func() bool { mu.Lock(); defer mu.Unlock(); return len(waits) == 1 })
	mu.Lock()
	first := waits[0]
	mu.Unlock()
	if r := inspect(t, server); r.Queued < uint64(first) || first == 0 { // memory, which is more than bytes
		t.Errorf("%d bytes were written, and now it is %+v", first, r)
	}
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, sent) {
		t.Error("something else arrived, and ", err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	if n, err := q.Write(nil); n != 0 || err != nil {
		t.Error("writing nothing: ", n, err)
	}
}

// TestQueueTellsWhatHasMoved has a write fill the queue, and another one find it full.
func TestQueueTellsWhatHasMoved(t *testing.T) {
	server, _ := connect(t, "unix", filepath.Join(t.TempDir(), "s"))
	waits := make(chan int, 2)
	q, _ := Queue(server.(*net.UnixConn), waiterFunc(func(n int) { waits <- n }))
	for i, want := range []bool{true, false} {
		ended := make(chan error, 1)
		go func() {
			_, err := q.Write(make([]byte, 4<<20))
			ended <- err
		}()
		select {
		case n := <-waits:
			if n > 0 != want {
				t.Errorf("write %d says that it has moved %d bytes", i+1, n)
			}
		case <-time.After(patience):
			t.Fatalf("write %d does not wait", i+1)
		}
		q.SetWriteDeadline(time.Unix(1, 0))
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		q.SetWriteDeadline(time.Time{})
	}
}

// TestQueueFailsLikeNet compares the errors of a Queue with those of package net.
func TestQueueFailsLikeNet(t *testing.T) {
	for name, end := range map[string]func(server, client net.Conn){
		"deadline":    func(server, _ net.Conn) { server.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)) },
		"closed":      func(server, _ net.Conn) { server.Close() },
		"broken pipe": func(_, client net.Conn) { client.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			flood := make([]byte, 8<<20)
			fail := func(wrap func(*net.UnixConn) net.Conn) *net.OpError {
				server, client := connect(t, "unix", filepath.Join(t.TempDir(), "s"))
				end(server, client)
				var opErr *net.OpError
				if _, err := wrap(server.(*net.UnixConn)).Write(flood); !errors.As(err, &opErr) {
					t.Fatalf("%T: %v", err, err)
				}
				return opErr
			}
			want := fail(func(c *net.UnixConn) net.Conn { return c })
			got := fail(func(c *net.UnixConn) net.Conn { q, _ := Queue(c, nobody{}); return q })
			if got.Op != want.Op || got.Net != want.Net || got.Err.Error() != want.Err.Error() ||
				got.Timeout() != want.Timeout() || errors.Is(got, os.ErrDeadlineExceeded) != errors.Is(want, os.ErrDeadlineExceeded) {
				t.Errorf("%#v (%v), not %#v (%v)", got, got, want, want)
			}
		})
	}
}
