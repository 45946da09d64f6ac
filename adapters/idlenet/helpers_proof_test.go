//go:build proof

package idlenet

import (
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/intime"
	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
)

// await runs op and returns its error and when it came.
//
//lint:ignore ST1008 the error is the result, not how it went
func await(t testing.TB, op func() error) (err error, at time.Time) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- op() }()
	select {
	case err = <-done:
		return err, time.Now()
	case <-time.After(patience):
		t.Fatalf("still waiting after %v", patience)
		return nil, time.Time{}
	}
}

// pollWrites writes size bytes at a time, for no longer than every each, until
// the connection has timed out.
func pollWrites(c *Conn, every time.Duration, size int) error {
	for {
		c.SetWriteDeadline(time.Now().Add(every))
		_, err := c.Write(make([]byte, size))
		if c.Timeout() != nil {
			_, err = c.Write(make([]byte, 1)) // the last poll may have ended for both reasons at once
			return err
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// A together runs subtests all at once, however few t.Parallel would allow:
// they hardly do anything but wait.
type together struct {
	t    *testing.T
	wait sync.WaitGroup
}

func (g *together) run(name string, test func(*testing.T)) {
	g.wait.Go(func() { g.t.Run(name, test) })
}

// needLinux skips a test of what only Linux tells about a connection. Emulators pass on only part of it.
func needLinux(t testing.TB) {
	t.Helper()
	if server, _ := tcpPair(t); kernel.InspectConn(server).Out == 0 {
		t.Skip("this system doesn't tell when output moved")
	}
}

// A metronome notes the longest time between its beats. A peer that means to
// be steady has one, so that a test can tell a connection which was cut wrongly
// from one whose peer did not get the processor.
type metronome struct {
	last    time.Time
	longest time.Duration
	before  time.Duration // how long the process had been stalled
}

func (m *metronome) beat() {
	now := time.Now()
	if m.last.IsZero() {
		m.before = intime.Stalled()
	} else {
		m.longest = max(m.longest, now.Sub(m.last))
	}
	m.last = now
}

// mustHaveBeen skips the test if the peer was not as steady as it meant to be, or
// the process was stalled for as long in all: the kernel goes on later than those
// who wait for it, as its pauses double.
func (m *metronome) mustHaveBeen(t testing.TB, within time.Duration) {
	t.Helper()
	if sum := intime.Stalled() - m.before; m.longest > within || sum > within {
		t.Skipf("inconclusive: the machine let the peer wait for %v, and was stalled for %v", m.longest, sum)
	}
}
