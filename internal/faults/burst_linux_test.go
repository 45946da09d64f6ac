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

// The least speed is averaged since the phase began, so what a peer takes at
// once buys it time: one that takes so much of a stream at first that it pays for
// another second, and then no more, is not closed before that is over. So it
// is with idlenet.
func TestBurstBuysTime(t *testing.T) {
	long(t)
	t.Parallel()
	s := startNet(t, burstPolicy(), nil, func(c *idlenet.Conn) error { return fill(c) })
	closedAfterBurst(t, s.address, s.ended)
}

// With idlegnet as well; there the bytes are written in a callback.
func TestBurstBuysTimeOnLoop(t *testing.T) {
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

// closedAfterBurst takes a burst, and checks that the end does not come before
// it is used up.
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
		t.Fatal(err)
	}
	soon(t, ended, "end")
	if took, least := time.Since(begin), burstPays+limit/2; took < least {
		t.Errorf("closed after %v, though what it had taken paid for %v", took, least)
	}
}
