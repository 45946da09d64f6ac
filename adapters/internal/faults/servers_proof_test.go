//go:build proof

package faults

import (
	"sync/atomic"
	"testing"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

func startNet(t *testing.T, p idle.Policy, opts *idlenet.Options, serve func(*idlenet.Conn) error) *netServer {
	t.Helper()
	s, stop, err := newNetServer(p, opts, serve)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return s
}

func startGnet(t *testing.T, p idle.Policy, traffic func(gnet.Conn, []byte)) *gnetServer {
	t.Helper()
	s, stop, err := newGnetServer(p, nil, traffic)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return s
}

const request = "GET / HTTP/1.1\r\nHost: faults\r\n\r\n"

// A latch is opened once, and at the end of the test at the latest.
type latch struct {
	ch   chan struct{}
	open atomic.Bool
}

func newLatch(t *testing.T) *latch {
	l := &latch{ch: make(chan struct{})}
	t.Cleanup(l.release)
	return l
}

func (l *latch) release() {
	if !l.open.Swap(true) {
		close(l.ch)
	}
}

func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
}
