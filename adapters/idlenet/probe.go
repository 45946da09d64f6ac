package idlenet

import (
	"sync"
	"syscall"

	"github.com/idlewheel/idlewheel/adapters/internal/kernel"
	"github.com/idlewheel/idlewheel/idle"
)

// Probe implements idle.Prober.
func (o *owner) Probe() idle.Pulse {
	c := (*Conn)(o)
	r := c.ask()
	p := r.Pulse()
	p.Unreported = c.ledger.claim(r.Taken)
	return p
}

// ask asks the kernel. It knows nothing if the connection is not a kernel's, or
// is closed already, or the system has no way to ask.
func (c *Conn) ask() (r kernel.Report) {
	sc, isSocket := c.inner.(syscall.Conn)
	if !isSocket {
		return r
	}
	if raw, err := sc.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { r = kernel.Inspect(fd) })
	}
	return r
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
