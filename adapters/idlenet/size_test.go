package idlenet

import (
	"strconv"
	"testing"
	"unsafe"
)

// TestSize pins what the README says of the memory of a connection.
func TestSize(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skip("the README speaks of 64-bit systems")
	}
	if size := unsafe.Sizeof(Conn{}); size != 184 {
		t.Errorf("a Conn takes %d bytes, not 184", size)
	}
}
