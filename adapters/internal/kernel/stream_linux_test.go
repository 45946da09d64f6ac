//go:build !386 && !s390x && !msan && !asan && !idleother

package kernel

import (
	"strconv"
	"testing"
	"unsafe"
)

// TestSize pins the memory that a stream or a queue adds to a connection.
func TestSize(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skip("it is of 64-bit systems")
	}
	for name, size := range map[string]uintptr{"stream": unsafe.Sizeof(stream{}), "queue": unsafe.Sizeof(queue{})} {
		if size > 24 {
			t.Errorf("a %s takes %d bytes, at most 24 are allowed", name, size)
		}
	}
}
