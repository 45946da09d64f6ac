package main

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A ledger brings what a server knows of the end of a connection to the client
// that had it. Both know it by the client's address.
type ledger struct {
	mu   sync.Mutex
	open map[string]*entry
}

// An entry is about one connection.
type entry struct {
	told   chan struct{} // closed once there is something
	reason idle.Reason
	at     time.Time
}

func newLedger() *ledger { return &ledger{open: map[string]*entry{}} }

// enter is called by the client, as soon as it has an address.
func (l *ledger) enter(a net.Addr) *entry {
	e := &entry{told: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[a.String()] = e
	return e
}

// strike is called by the client when it is done.
func (l *ledger) strike(a net.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, a.String())
}

// timedOut is called by the server with the error of a connection, which may be a
// timeout. The last call counts: of HTTP it is told what is about to time out,
// which unread input may avert.
func (l *ledger) timedOut(a net.Addr, err error) {
	var timeout *idle.TimeoutError
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.open[a.String()]
	if e == nil || !errors.As(err, &timeout) {
		return
	}
	if e.reason == 0 {
		close(e.told)
	}
	e.reason, e.at = timeout.Reason, time.Now()
}

// wait returns what the server said, within d. The reason is 0 if it said
// nothing.
func (l *ledger) wait(e *entry, d time.Duration) (idle.Reason, time.Time) {
	select {
	case <-e.told:
	case <-time.After(d):
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return e.reason, e.at
}
