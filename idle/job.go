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

// A job is a connection that a look has found due, or that a walk visits.
type job struct {
	c     *Conn
	owner any
	hooks *Hooks
	state uint32 // at the time of the look; its generation tells whether c has been tracked anew since
}

// job returns the job of c. The lock must be held.
func (c *Conn) job() job { return job{c, c.owner, c.hooks, c.state.Load()} }

// holds reports whether the connection of j is still live and has not been tracked
// anew.
func (j job) holds() bool {
	st := j.c.state.Load()
	return sameGen(st, j.state) && st&live != 0
}

// connOf returns the connection whose timer is t.
func connOf(t *wheel.Timer) *Conn {
	return (*Conn)(unsafe.Add(unsafe.Pointer(t), -int(unsafe.Offsetof(Conn{}.entry)+unsafe.Offsetof(entry{}.timer))))
}
