package idle

import (
	"unsafe"

	"github.com/idlewheel/idlewheel/wheel"
)

// Between unlocking and locking again, a pass looks at no more than looksPerLock
// connections, and takes no more than jobsPerLock that are due. On a loop, where
// nothing is locked, it takes one, and then checks its budget.
const (
	looksPerLock = 256
	jobsPerLock  = 16
)

// connOf returns the connection whose timer is t.
func connOf(t *wheel.Timer) *Conn {
	return (*Conn)(unsafe.Add(unsafe.Pointer(t), -int(unsafe.Offsetof(Conn{}.entry)+unsafe.Offsetof(entry{}.timer))))
}
