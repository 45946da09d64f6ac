package idlenet

import "sync/atomic"

// A ledger keeps count of the bytes that the kernel has taken, so that those of
// a write which is still under way can be credited to a slow but sufficient
// reader, once each. Only the least speed of writing needs it, so it is opened
// by the first write after a policy has asked for one.
//
// The writer changes it under the connection's writing lock; the driver claims
// from it at any time.
type ledger struct {
	state    atomic.Uint32
	taken    uint64        // by the kernel, as far as whole steps of writes go
	credited atomic.Uint64 // of those and of a step under way
}

const (
	ledgerClosed = iota
	ledgerWanted
	ledgerOpen
)

// want has the ledger opened, if it is not open yet.
func (l *ledger) want() { l.state.CompareAndSwap(ledgerClosed, ledgerWanted) }

// openLedger opens the ledger if it is wanted. c.writing is held.
func (c *Conn) openLedger() {
	l := &c.ledger
	if l.state.Load() != ledgerWanted {
		return
	}
	r := c.ask()
	l.taken = r.Taken
	l.credited.Store(r.Taken)
	l.state.Store(ledgerOpen)
}

// enter counts n more bytes that the kernel has taken. The writing lock is held.
func (l *ledger) enter(n int) {
	if l.state.Load() == ledgerOpen {
		l.taken += uint64(n)
	}
}

// due returns how many bytes are to be credited after n were entered: n, less
// what a probe has credited already, and with what was entered but not asked
// for before. The writing lock is held.
func (l *ledger) due(n int) int {
	if l.state.Load() != ledgerOpen {
		return n
	}
	return l.claimUpTo(l.taken)
}

// claim returns how many of the bytes that the kernel has taken by now are not
// credited yet, and counts them as credited.
func (l *ledger) claim(taken uint64) int {
	if l.state.Load() != ledgerOpen {
		return 0
	}
	return l.claimUpTo(taken)
}

func (l *ledger) claimUpTo(taken uint64) int {
	for {
		known := l.credited.Load()
		if taken <= known {
			return 0
		}
		if l.credited.CompareAndSwap(known, taken) {
			return int(taken - known)
		}
	}
}
