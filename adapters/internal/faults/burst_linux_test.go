//go:build proof

package faults

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlenet"
	"github.com/idlewheel/idlewheel/idle"
)

// Only what is acknowledged while a write waits counts for the minimum rate. The kernels pass
// a burst on before the write waits, or after that, so it may buy time or not. A peer that
// takes it and then stops has the grace in any case.
func TestBurstThenNothing(t *testing.T) {
	long(t)
	t.Parallel()
	s := startNet(t, burstPolicy(), nil, func(c *idlenet.Conn) error { return fill(c) })
	closedAfterBurst(t, s.address, s.ended)
}

// With idlegnet the wait begins when the callback has returned.
func TestBurstThenNothingOnLoop(t *testing.T) {
	long(t)
	t.Parallel()
	s := startGnet(t, burstPolicy(), func(c gnet.Conn, _ []byte) { c.Write(make([]byte, 16<<20)) })
	closedAfterBurst(t, s.address, s.ended)
}

const (
	burst     = 16 << 10
	burstPays = time.Second
)

func burstPolicy() idle.Policy {
	return idle.Policy{MinWriteRate: idle.Rate{BytesPerSecond: int(burst * int64(time.Second) / int64(burstPays)), Grace: limit / 2}}
}

// closedAfterBurst takes a burst and then nothing, and checks that the end comes, and not within
// the grace.
func closedAfterBurst(t *testing.T, address string, ended <-chan error) {
	t.Helper()
	c := dial(t, address)
	c.(*net.TCPConn).SetReadBuffer(burst)
	begin := time.Now()
	if _, err := c.Write([]byte("s")); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(c, make([]byte, burst)); err != nil {
		if took := time.Since(begin); took > limit/2 { // the end has come, and a reset discards what wasn't read
			t.Skipf("the machine is too busy: a client that was to read at once did so after %v", took)
		}
		t.Fatal(err)
	}
	soon(t, ended, "end")
	if took := time.Since(begin); took < limit/2 {
		t.Errorf("closed after %v, in the grace of %v", took, limit/2)
	}
}
