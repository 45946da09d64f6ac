// Package descriptors lets Accept go on when the process runs out of descriptors.
package descriptors

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

const (
	evictedAtOnce = 8                // connections are evicted when descriptors run out
	soonClosed    = time.Millisecond // is what it takes at best until they are closed
	lateClosed    = 8 * soonClosed   // is what it takes on a busy machine
)

// Accept accepts a connection from ln. If that fails for lack of descriptors and t has a
// capacity, it evicts some connections of t and tries again, until it succeeds. While none
// can be evicted it waits for some to end by themselves. If t is closed meanwhile, it fails with an error
// that is both net.ErrClosed and idle.ErrClosed.
func Accept(ln net.Listener, t *idle.Tracker) (net.Conn, error) {
	for wait := time.Duration(0); ; wait *= 2 {
		nc, err := ln.Accept()
		if err == nil || !isShort(err) {
			return nc, err
		}
		if _, limited := t.Capacity(); !limited {
			return nil, err
		}
		if wait == 0 || wait > lateClosed {
			t.EvictIdle(evictedAtOnce)
			wait = soonClosed
		}
		select {
		case <-t.Done():
			return nil, fmt.Errorf("%w: %w", net.ErrClosed, idle.ErrClosed)
		case <-time.After(wait):
		}
	}
}

// isShort reports whether err says that the process, or the system, has no descriptor
// left.
func isShort(err error) bool { return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) }
