//go:build !idleother

package kernel

import (
	"net"
	"path/filepath"
	"testing"
)

// TestQueueIsOfStreams: a datagram that does not fit is not written in part.
func TestQueueIsOfStreams(t *testing.T) {
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if made, notifies := Queue(c, nobody{}); made != c || notifies {
		t.Errorf("it becomes a %T", made)
	}
}
