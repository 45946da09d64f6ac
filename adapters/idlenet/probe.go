package idlenet

import (
	"syscall"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// report is what the kernel knows of a connection. Zero fields are not known.
type report struct {
	unread   bool          // input waits to be read
	in, out  time.Duration // since bytes came, and since bytes went and were acknowledged
	counted  bool          // queued is known
	queued   uint64        // bytes taken but not acknowledged
	acked    uint64        // bytes acknowledged ever, if known
	ackKnown bool
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
	p := idle.Pulse{In: r.in, Out: r.out, Unread: r.unread, Drained: r.counted && r.queued == 0}
	if r.ackKnown {
		p.Unreported = c.claim(r.acked + r.queued)
	}
	return p
}

// claim returns how many of the bytes that the kernel has taken are not
// reported yet, and marks them as reported.
func (c *Conn) claim(taken uint64) int {
	for {
		known := c.reported.Load()
		if taken <= known {
			return 0
		}
		if c.reported.CompareAndSwap(known, taken) {
			return int(taken - known)
		}
	}
}

// taken returns how many bytes the kernel has taken from the connection so
// far, 0 if it does not tell.
func (c *Conn) taken() uint64 {
	r, ok := c.ask()
	if !ok || !r.ackKnown {
		return 0
	}
	return r.acked + r.queued
}
