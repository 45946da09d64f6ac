//go:build proof && linux

package faults

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A talker is a client that sends all along, whatever comes back, and so must
// not be closed.
type talker struct {
	net.Conn
	message  string
	gap      time.Duration // the longest silence that it may have been guilty of
	received atomic.Int64
	stop     chan struct{}
	ended    sync.WaitGroup
	wrote    chan struct{} // closed when it writes no more
	readErr  error
	writeErr error
}

const talkEvery = limit / 10

// soon returns what comes from a channel.
func soon[T any](t *testing.T, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		t.Fatalf("no %s within %v", what, patience)
	}
	return v
}

// inTime skips the test if a client that was to say something at once, since
// begun, has said it too late to be held against the server.
func inTime(t *testing.T, begun time.Time) {
	t.Helper()
	if took := time.Since(begun); took > limit/4 {
		t.Skipf("the machine is too busy: a client that was to speak at once took %v", took)
	}
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// talk starts a talker.
func talk(t *testing.T, address, message string) *talker {
	t.Helper()
	begun := time.Now()
	k := &talker{Conn: dial(t, address), message: message, stop: make(chan struct{}), wrote: make(chan struct{})}
	k.ended.Go(func() { defer close(k.wrote); k.writeErr = k.write(begun) })
	k.ended.Go(func() { k.readErr = k.read() })
	return k
}

func (k *talker) write(last time.Time) error {
	every := time.NewTicker(talkEvery)
	defer every.Stop()
	for {
		begin := time.Now()
		_, err := io.WriteString(k, k.message)
		// In the kernel's hands now, after silence since the last began.
		k.gap = max(k.gap, time.Since(last))
		if err != nil {
			return err
		}
		last = begin
		select {
		case <-k.stop:
			k.gap = max(k.gap, time.Since(last))
			return nil
		case <-every.C:
		}
	}
}

func (k *talker) read() error {
	b := make([]byte, 4096)
	for {
		n, err := k.Read(b)
		k.received.Add(int64(n))
		if err != nil {
			return err
		}
		if n == len(b) { // from a server that writes without end, which would keep the machine busy
			time.Sleep(talkEvery / 5)
		}
	}
}

// answered waits until the server has said something more.
func (k *talker) answered(t *testing.T) {
	t.Helper()
	was := k.received.Load()
	for end := time.Now().Add(patience); k.received.Load() == was; time.Sleep(talkEvery / 10) {
		select {
		case <-k.wrote: // as it was closed
			k.excuse(t)
			t.Fatalf("closed though it was never silent for more than %v: %v", k.gap, k.writeErr)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("no answer within %v", patience)
		}
	}
}

// excuse skips the test if the talker, which writes no more, has been silent for
// too long.
func (k *talker) excuse(t *testing.T) {
	t.Helper()
	if k.gap >= limit {
		t.Skipf("the machine is too busy: a client that was to send every %v was silent for %v", talkEvery, k.gap)
	}
}

// mustLive waits for an answer, and then checks that the talker was not closed.
func (k *talker) mustLive(t *testing.T) {
	t.Helper()
	k.answered(t)
	close(k.stop)
	k.SetReadDeadline(time.Now().Add(talkEvery))
	k.ended.Wait()
	k.excuse(t)
	if k.writeErr != nil || !errors.Is(k.readErr, os.ErrDeadlineExceeded) {
		t.Errorf("closed though it was never silent for more than %v: %v, %v", k.gap, k.writeErr, k.readErr)
	}
}

// awaitEnd waits until the peer has closed c.
func awaitEnd(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("not closed within %v", patience)
	}
}
