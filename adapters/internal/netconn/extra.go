package netconn

import (
	"net"
	"sync/atomic"

	"github.com/idlewheel/idlewheel/idle"
)

// extra has what few connections need.
type extra struct {
	timeout *idle.TimeoutError // the limit that has passed; nil before
	address *address           // nil for a socket
	counted net.Conn           // what to close instead of Conn.inner, if not nil
	over    chan struct{}      // closed when the flag over is set; nil if nobody waits for that
	turns   [2]chan struct{}   // see turn
	onClose func()             // to be called when c is closed; may be nil
}

// A CopyOnWrite points to a T that is never changed, only replaced. Load returns nil at first.
type CopyOnWrite[T any] struct{ atomic.Pointer[T] }

// Update replaces the T by a copy that change has modified. It may call change more than once.
func (r *CopyOnWrite[T]) Update(change func(*T)) {
	for {
		was, next := r.Load(), new(T)
		if was != nil {
			*next = *was
		}
		change(next)
		if r.CompareAndSwap(was, next) {
			return
		}
	}
}
