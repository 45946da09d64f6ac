package idleprom

import (
	"context"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// every is how often a census of a tracker begins at most.
const every = time.Second

// A census takes the censuses of a tracker, one at a time, for all scrapes together.
type census struct {
	tracker *idle.Tracker
	timeout time.Duration

	mu      sync.Mutex
	running chan struct{} // closed when the census under way has finished; nil if none is
	last    *idle.Census  // nil if none has finished, or the tracker is closed
	late    uint64        // scrapes that have not waited for theirs
}

// take waits for the census under way, or for a new one if the last one is old, but at most for
// the timeout. It returns the last census that has finished, or nil if there is none, and how
// many scrapes were late.
func (c *census) take() (last *idle.Census, late uint64) {
	patience := time.NewTimer(c.timeout)
	defer patience.Stop()
	select {
	case <-c.begin():
	case <-patience.C:
		c.mu.Lock()
		c.late++
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.late
}

// begin begins a census unless one is under way, or the last one is young enough. The
// channel it returns is closed when there is nothing to wait for any more.
func (c *census) begin() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.running != nil:
	case c.last != nil && time.Since(c.last.At) < every:
		finished := make(chan struct{})
		close(finished)
		return finished
	default:
		c.running = make(chan struct{})
		go c.run(c.running)
	}
	return c.running
}

// run takes a census, without a time limit: otherwise a tracker whose censuses are never in time
// would never have a result. Closing the tracker ends it.
func (c *census) run(done chan struct{}) {
	defer close(done)
	found, err := c.tracker.Census(context.Background(), idle.Query{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.last = nil, nil
	if err == nil {
		c.last = found
	}
}
