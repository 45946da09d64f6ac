//go:build proof

package main

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestClosedTwice tells a herd of one end twice: the kernel reports it when the
// server closes a connection, and may report it again when it gives the connection up.
func TestClosedTwice(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	fd := int32(pair[0])
	h := &herd{epollLoad: &epollLoad{due: make([]int, fd+1)}, left: 2, ends: make([]time.Time, fd+1)}
	h.due[fd] = 1 << 30
	unix.Write(pair[1], []byte("ping"))
	if err := h.hearSilent(fd); err != nil || h.left != 2 {
		t.Errorf("after a ping %d are left, %v", h.left, err)
	}
	unix.Close(pair[1])
	for range 2 {
		if err := h.hearSilent(fd); err != nil || h.left != 1 || h.ends[fd].IsZero() {
			t.Errorf("after an end %d are left, closed at %v, %v", h.left, h.ends[fd], err)
		}
	}
}
