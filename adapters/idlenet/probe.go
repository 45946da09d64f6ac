package idlenet

import (
	"sync"
	"syscall"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// report is what the kernel knows of a connection. Zero fields are not known.
type report struct {
	unread  bool          // input waits to be read
	in, out time.Duration // since bytes came, and since bytes went and were acknowledged
	counted bool          // queued is known
	queued  uint64        // bytes taken but not acknowledged
	taken   uint64        // bytes taken ever
}

// ask asks the kernel. ok is false if the connection is not a kernel's, or
// closed already, or the system has no way to ask.
func (c *Conn) ask() (r report, ok bool) {
	sc, isSocket := c.inner.(syscall.Conn)
	if !isSocket {
		return r, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return r, false
	}
	err = raw.Control(func(fd uintptr) { r, ok = inspect(fd) })
	return r, ok && err == nil
}

// Probe implements idle.Prober.
func (o *owner) Probe() idle.Pulse {
	c := (*Conn)(o)
	r, ok := c.ask()
	if !ok {
		return idle.Pulse{}
	}
	return idle.Pulse{
		In: r.in, Out: r.out,
		Unread:     r.unread,
		Drained:    r.counted && r.queued == 0,
		Unreported: c.ledger.claim(r.taken),
	}
}

// Waiting implements idle.Waiter: whoever reads or writes holds a lock.
func (o *owner) Waiting() (read, write bool) {
	return held(&o.reading), held(&o.writing)
}

func held(m *sync.Mutex) bool {
	if m.TryLock() {
		m.Unlock()
		return false
	}
	return true
}
