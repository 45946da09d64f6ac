package idlenet

import (
	"strconv"
	"testing"
	"unsafe"
)

// TestSize pins the memory of a connection, which is a size class of the allocator.
func TestSize(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skip("it is of 64-bit systems")
	}
	if size := unsafe.Sizeof(Conn{}); size != 200 {
		t.Errorf("a Conn takes %d bytes, not 200", size)
	}
}
