package census

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

const (
	Every    = time.Second // a census of a [Cache] begins at most so often
	Patience = time.Second // a census isn't waited for any longer after it began
)

// ErrLate is returned by [Cache.Get] when a census takes longer than [Patience].
var ErrLate = fmt.Errorf("the census has not finished within %v; perhaps an event loop is blocked", Patience)

// A Cache takes the censuses of a tracker for all who ask: one at a time, and at most one a second.
// Nothing runs while nobody asks.
type Cache struct {
	tracker *idle.Tracker
	n       int
	orders  []Order

	mu    sync.Mutex
	begun time.Time     // when the latest census began
	done  chan struct{} // closed when that one has finished; nil before the first
	last  *Census       // the latest that has finished, or nil
	err   error         // of that: nil, or ErrClosed
}

// NewCache returns a cache of censuses; see [Take] for n and orders.
func NewCache(t *idle.Tracker, n int, orders ...Order) *Cache {
	return &Cache{tracker: t, n: n, orders: orders}
}

// Get returns the latest census if it began less than a second ago. Otherwise it begins another one,
// unless one is under way, and waits for it. If that isn't finished in time, it goes on, and Get
// returns an older census, or nil, together with [ErrLate] or the error of ctx. Get returns nil and
// [idle.ErrClosed] if the tracker is closed.
func (c *Cache) Get(ctx context.Context) (last *Census, err error) {
	done, begun := c.begin()
	late := time.NewTimer(time.Until(begun.Add(Patience)))
	defer late.Stop()
	select {
	case <-done:
	default:
		select {
		case <-done:
		case <-late.C:
			err = ErrLate
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	select {
	case <-c.tracker.Done():
		return nil, idle.ErrClosed
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, cmp.Or(c.err, err)
}

// begin begins a census, unless one is under way or is young enough. It returns when the latest one
// began, and a channel that is closed when it has finished.
func (c *Cache) begin() (done <-chan struct{}, begun time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.begun) >= Every && !c.isRunning() {
		c.begun, c.done = time.Now(), make(chan struct{})
		go c.take(c.done)
	}
	return c.done, c.begun
}

// isRunning reports whether a census is under way. c.mu must be held.
func (c *Cache) isRunning() bool {
	if c.done == nil {
		return false
	}
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// take takes a census. It has no time limit: otherwise a tracker whose censuses are never in time would
// never have a result. It ends when the tracker is closed.
func (c *Cache) take(done chan struct{}) {
	defer close(done)
	found, err := Take(context.Background(), c.tracker, c.n, c.orders...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.err = found, err
}
