//go:build proof

package idlenet

import (
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// TestDatagramsStayWhole writes a datagram that is longer than a step of a stream.
func TestDatagramsStayWhole(t *testing.T) {
	t.Parallel()
	needLinux(t) // elsewhere a datagram may have a few kB only
	peer, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	bare, err := net.Dial("udp", peer.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	slowest := idle.Rate{BytesPerSecond: 1, Grace: time.Minute}
	c, err := WrapConn(bare, newTracker(t, idle.Policy{MinWriteRate: slowest}), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const long = 40_000
	if n, err := c.Write(make([]byte, long)); n != long || err != nil {
		t.Fatal(n, err)
	}
	peer.SetReadDeadline(time.Now().Add(patience))
	if n, _, err := peer.ReadFrom(make([]byte, 1<<16)); n != long || err != nil {
		t.Errorf("of %d bytes, %d have arrived in one datagram: %v", long, n, err)
	}
}
