package idlegnet

import (
	"sync"

	"github.com/panjf2000/gnet/v2"
)

// A table finds the conn of a gnet.Conn. Here its descriptor costs system
// calls, and is gone when it is closed, so it is found by identity.
type table struct {
	conns sync.Map // of gnet.Conn to *conn
}

// get returns the conn of c, nil if there is none.
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
