//go:build windows || idleother

package idlegnet

import (
	"sync"

	"github.com/panjf2000/gnet/v2"
)

// A table finds the conn of a gnet.Conn. On Windows asking for the descriptor
// costs system calls, and fails once it is closed. So the gnet.Conn itself is the
// key. The tag idleother tests this on other systems.
type table struct {
	conns sync.Map // maps gnet.Conn to *conn
}

// get returns the conn of c, or nil if there is none.
func (t *table) get(c gnet.Conn) *conn {
	s, ok := t.conns.Load(c)
	if !ok {
		return nil
	}
	return s.(*conn)
}

func (t *table) put(s *conn) bool {
	t.conns.Store(s.c, s)
	return true
}

func (t *table) remove(s *conn) { t.conns.Delete(s.c) }
