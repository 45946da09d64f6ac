package idle

import (
	"context"
	"time"
)

// A Query says what a [Tracker.Census] is about. The zero Query counts all connections,
// and lists none.
type Query struct {
	// Sort has the census list connections in this order.
	Sort Sort

	// Phases are the names of phases whose connections are listed. Nil means all.
	// All are counted in any case.
	Phases []string
}

// Sort is an order of connections.
type Sort uint8

// The orders of connections.
const (
	Unlisted   Sort = iota // none is listed
	MostIdle               // the longest time without activity first
	Oldest                 // the greatest age first
	NextToEnd              // the soonest to end if nothing moves first
	MostMisses             // the most unanswered pings first
)

// A Census is what a tracker's connections were at a moment. It holds memory for each
// connection that it lists: 32 bytes, and the connection itself.
type Census struct {
	At     time.Time     // when it began
	Took   time.Duration // until all were visited
	Live   int           // connections that were visited
	Phases map[string]PhaseCensus
	Idle   Histogram // time since their last activity
	Age    Histogram // see [Conn.Age]
}

// A PhaseCensus is what a census has found out about the phases of one name.
type PhaseCensus struct {
	Live  int    // connections
	Phase *Phase // one of the phases with that name
}

// Info describes a live connection.
type Info struct {
	Label string // see Options.Label
	Owner any    // what was passed to Track; on a loop, use it only there
	Phase string // Policy.Name of its phase

	Age     time.Duration // see [Conn.Age]
	IdleIn  time.Duration // since something arrived
	IdleOut time.Duration // since something was sent
	Busy    bool          // see [Tracker.Drain]
	Misses  int           // pings that were not answered, in a row

	// Next is what is due next if nothing moves: "ping", "miss", "drain" or "end", or
	// empty if no limit counts. NextIn is how soon that is, and is not positive if it is
	// due. NextBy is the limit that causes it.
	Next   string
	NextIn time.Duration
	NextBy Reason

	// EndsIn is how soon the connection ends if nothing moves, and EndsBy is the limit
	// that causes it, or 0 if none does.
	EndsIn time.Duration
	EndsBy Reason
}

// End ends the connection as [Conn.End] does, unless it has ended since, even if its Conn
// is used for another connection by now. Any goroutine may call it.
func (i *Info) End(cause string) {}

// Census visits all connections, in the passes of their shards, and counts them. It
// allocates nothing for a connection that is not listed, and no activity waits for it.
// Connections are not all visited at the same moment. One whose OnTimeout is running is
// not counted. Several censuses run one after the other.
//
// Census fails with [ErrClosed] if the tracker is closed, with an error if q is invalid,
// and with ctx's error if ctx is done first, for example as an event loop is blocked.
// Any goroutine may call it, but a callback of a loop must not, as it would wait for
// itself.
func (t *Tracker) Census(ctx context.Context, q Query) (*Census, error) {
	t.mustBeMade()
	return nil, nil
}

// Ending returns how many of the connections end within d of c.At if nothing moves: no
// byte, no beat, no close. d is rounded down to whole ticks, and is at most a minute.
func (c *Census) Ending(d time.Duration) int { return 0 }

// Len returns the number of connections that are listed.
func (c *Census) Len() int { return 0 }

// Page describes n connections of the list, or fewer at its end, from number from on,
// which counts from 0. Each is described as it is now. Those that have ended since are left
// out. The order is that of the census. Page has the same errors as [Tracker.Census], and
// one if from or n is negative.
func (c *Census) Page(ctx context.Context, from, n int) ([]Info, error) { return nil, nil }
