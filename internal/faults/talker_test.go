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

// patience is how long is waited for what has to happen. Nothing depends on how
// long it takes.
const patience = 30 * time.Second

// limit is what servers here allow: long against the moments for which a busy
// machine lets nobody run, short against a person's patience.
const limit = time.Second

// A talker is a client that sends all along, whatever comes back, and so must
// not be closed.
type talker struct {
	net.Conn
	message  string
	gap      time.Duration // the longest silence that it may have been guilty of
	received atomic.Int64
	stop     chan struct{}
	ended    sync.WaitGroup
	readErr  error
	writeErr error
}

const talkEvery = limit / 10

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
	k := &talker{Conn: dial(t, address), message: message, stop: make(chan struct{})}
	k.ended.Go(func() { k.writeErr = k.write(begun) })
	k.ended.Go(func() { k.readErr = k.read() })
	return k
}

func (k *talker) write(last time.Time) error {
	every := time.NewTicker(talkEvery)
	defer every.Stop()
	for {
		begin := time.Now()
		if _, err := io.WriteString(k, k.message); err != nil {
			return err
		}
		// In the kernel's hands now, after silence since the last began.
		k.gap = max(k.gap, time.Since(last))
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
	}
}

// answered waits until the server has said something more.
func (k *talker) answered(t *testing.T) {
	t.Helper()
	was := k.received.Load()
	for end := time.Now().Add(patience); k.received.Load() == was; time.Sleep(talkEvery / 10) {
		if time.Now().After(end) {
			t.Fatalf("no answer within %v", patience)
		}
	}
}

// mustLive waits for an answer, and then checks that the talker was not closed.
func (k *talker) mustLive(t *testing.T) {
	t.Helper()
	was := k.received.Load()
	for end := time.Now().Add(patience); k.received.Load() == was && time.Now().Before(end); {
		time.Sleep(talkEvery / 10)
	}
	close(k.stop)
	k.SetReadDeadline(time.Now().Add(talkEvery))
	k.ended.Wait()
	silent := k.received.Load() == was
	switch {
	case k.gap >= limit:
		t.Skipf("the machine is too busy: a client that was to send every %v was silent for %v", talkEvery, k.gap)
	case k.writeErr != nil || !errors.Is(k.readErr, os.ErrDeadlineExceeded):
		t.Errorf("closed though it was never silent for more than %v: %v, %v", k.gap, k.writeErr, k.readErr)
	case silent:
		t.Errorf("no answer within %v", patience)
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
