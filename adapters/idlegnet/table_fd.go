//go:build !windows && !idleother

package idlegnet

import (
	"sync/atomic"

	"github.com/panjf2000/gnet/v2"
)

// A table finds the conn of a gnet.Conn by its descriptor. That takes three
// loads, where a map would cost a hash, and a lock or a lookup of the loop first.
//
// The loop of the connection that has the descriptor sets and clears its slot. It
// clears it in OnClose, before gnet closes the descriptor, so no two loops write
// to a slot at once. But a loop may look up a connection that is gone while the
// descriptor belongs to a connection of another loop. So slots are atomic, and
// get compares the connection.
type table struct {
	pages [1 << dirBits]atomic.Pointer[page] // allocated when needed
}

type page [1 << pageBits]atomic.Pointer[conn]

// Room for 16 million descriptors. By default, Linux limits a process to one
// million.
const (
	dirBits  = 12
	pageBits = 12
)

// get returns the conn of c, or nil if there is none.
func (t *table) get(c gnet.Conn) *conn {
	fd := uint(c.Fd()) // very large if the descriptor is -1
	i := fd >> pageBits
	if i >= uint(len(t.pages)) {
		return nil
	}
	p := t.pages[i].Load()
	if p == nil {
		return nil
	}
	if s := p[fd%uint(len(p))].Load(); s != nil && s.c == c {
		return s
	}
	return nil
}

// put adds s. It reports whether the descriptor is small enough for the table.
func (t *table) put(s *conn) bool {
	fd := uint(s.c.Fd())
	i := fd >> pageBits
	if i >= uint(len(t.pages)) {
		return false
	}
	if t.pages[i].Load() == nil {
		t.pages[i].CompareAndSwap(nil, new(page))
	}
	t.pages[i].Load()[fd%uint(len(page{}))].Store(s)
	return true
}

// remove deletes s, which must be in the table.
func (t *table) remove(s *conn) {
	fd := uint(s.c.Fd())
	t.pages[fd>>pageBits].Load()[fd%uint(len(page{}))].CompareAndSwap(s, nil)
}
