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

// With SO_LINGER a Close blocks for as long as it is told while the peer does
// not take what was written. When the tracker itself closes such connections, as
// their handlers do not, that delays no timeout of others: to time out is to set
// a deadline, which cannot block.
func TestBlockedClose(t *testing.T) {
	long(t)
	t.Parallel()
	const lingerers, others = 12, 20
	needBlockingClose(t)
	release := newLatch(t)
	s := startNet(t, idle.Policy{IdleTimeout: limit / 2}, nil, func(c *idlenet.Conn) error {
		b := make([]byte, 1)
		if _, err := io.ReadFull(c, b); err != nil {
			return err
		}
		c.SetLinger(5)
		err := fill(c)
		<-release.ch // neither reads nor writes nor closes any more
		return err
	})
	for range lingerers {
		c := dial(t, s.address)
		c.(*net.TCPConn).SetReadBuffer(4096)
		if _, err := c.Write([]byte("!")); err != nil {
			t.Fatal(err)
		}
	}
	for s.tracker.Stats().TimedOut[idle.ReasonIdle] < lingerers {
		time.Sleep(limit / 100)
	}
	time.Sleep(limit + limit/2) // options.Linger and more: they are being closed now
	for range others {
		c := dial(t, s.address)
		awaitEnd(t, c)
		if r := s.reason(t); r != idle.ReasonIdle {
			t.Errorf("closed for %v", r)
		}
	}
	release.release()
}

// needBlockingClose skips a test where a Close does not block.
func needBlockingClose(t *testing.T) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dial(t, ln.Addr().String()).(*net.TCPConn).SetReadBuffer(4096)
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c.SetWriteDeadline(time.Now().Add(limit / 10))
	for err == nil {
		_, err = c.Write(make([]byte, 64<<10))
	}
	c.(*net.TCPConn).SetLinger(1)
	begin := time.Now()
	c.Close()
	if took := time.Since(begin); took < time.Second/2 {
		t.Skipf("with SO_LINGER of a second, Close took but %v: it does not block on this system", took)
	}
}

// gnet closes a connection on its event loop, so one with SO_LINGER whose peer
// takes nothing blocks the loop for that long, with timeouts or without. That
// closes none of the loop's live connections: see TestHoggedLoop.
func TestBlockedCloseOnLoop(t *testing.T) {
	long(t)
	t.Parallel()
	needBlockingClose(t)
	s := startGnet(t, idle.Policy{IdleTimeout: limit}, func(c gnet.Conn, b []byte) {
		if b[0] == '!' {
			c.SetLinger(int(3 * limit / time.Second))
			b = make([]byte, 8<<20)
		}
		c.Write(b)
	})
	var talkers []*talker
	for range 5 {
		talkers = append(talkers, talk(t, s.address, "hello"))
	}
	deaf := dial(t, s.address)
	deaf.(*net.TCPConn).SetReadBuffer(4096)
	if _, err := deaf.Write([]byte("!")); err != nil {
		t.Fatal(err)
	}
	s.reason(t) // it is told after the close, so the loop has been blocked by now, if at all
	time.Sleep(4 * limit)
	for _, k := range talkers {
		k.mustLive(t)
	}
}
