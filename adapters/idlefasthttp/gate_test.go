package idlefasthttp

import (
	"net"
	"sync/atomic"

	"github.com/idlewheel/idlewheel/idle"
)

// A gate puts timeouts off until it is opened: for tests that have to get
// somewhere, however slowly, before a limit may be passed.
type gate struct{ isOpen atomic.Bool }

func (g *gate) keep(net.Conn, *idle.TimeoutError) bool { return !g.isOpen.Load() }
func (g *gate) open()                                  { g.isOpen.Store(true) }
func (g *gate) shut()                                  { g.isOpen.Store(false) }
