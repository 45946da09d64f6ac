//go:build !windows

package idlegnet

import (
	"sync/atomic"

	"github.com/panjf2000/gnet/v2"
)

// A table finds the conn of a gnet.Conn by its descriptor: three loads, where a
// map would cost a hash, and a lock or a lookup of the loop first.
//
// A slot is set and cleared on the loop of the connection that has the
// descriptor, the latter in OnClose, before gnet closes it; so no two loops set
// it at once. But a loop may look for a connection that is gone while another
// loop has its descriptor. So slots are atomic, and what is found is compared.
type table struct {
	pages [1 << dirBits]atomic.Pointer[page] // made when needed
}

type page [1 << pageBits]atomic.Pointer[conn]

// 16 million descriptors, the limit of a process being one million by default.
const (
	dirBits  = 12
	pageBits = 12
)

// get returns the conn of c, nil if there is none.
func (t *table) get(c gnet.Conn) *conn {
	fd := uint(c.Fd()) // not small if it is -1
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

// put adds s, and reports whether its descriptor is small enough for that.
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

// remove takes out s, which has been added.
func (t *table) remove(s *conn) {
	fd := uint(s.c.Fd())
	t.pages[fd>>pageBits].Load()[fd%uint(len(page{}))].CompareAndSwap(s, nil)
}
