package idle

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Info describes a live connection.
type Info struct {
	Label string // see Options.Label
	Owner any    // what was passed to Track; on a loop, use it only there
	Phase string // Policy.Name of its phase

	Age     time.Duration // see [Conn.Age]
	IdleIn  time.Duration // since something arrived, except answers to pings; see [Heartbeat]
	IdleOut time.Duration // since something was sent, except pings
	Busy    bool          // see [Tracker.Drain]
	Misses  int           // pings that were not answered, in a row

	// Next is what is due next if nothing moves: "ping", "miss", "drain" or "end", or
	// empty if no limit counts. NextIn is the time until then; it is zero or negative if
	// that is overdue. NextBy is the limit that causes it.
	Next   string
	NextIn time.Duration
	NextBy Reason

	// EndsIn is the time until the connection ends if nothing moves. EndsBy is the limit
	// that ends it, or 0 if none does.
	EndsIn time.Duration
	EndsBy Reason

	of *Conn
}

// End ends the connection as [Conn.End] does, unless it has ended since. Any goroutine may
// call it.
func (i *Info) End(cause string) {
	if i.of == nil {
		panic("idle: End of a zero Info; get one from Census.Page")
	}
	i.of.End(cause)
}

// describe describes connections that a census has met. Their shards do that.
func (b *base) describe(ctx context.Context, all []candidate) ([]Info, error) {
	infos := make([]Info, len(all))
	done := make(chan struct{})
	var left atomic.Int64
	left.Store(int64(len(all)) + 1)
	one := func() {
		if left.Add(-1) == 0 {
			close(done)
		}
	}
	for i, c := range all {
		s := c.conn.shard
		if !s.do(func() {
			defer one()
			if ctx.Err() == nil && c.conn.Live() {
				infos[i] = s.info(c.conn)
			}
		}) {
			one()
		}
	}
	one()
	select {
	case <-done:
	case <-b.stop: // no loop runs a pass any more
	case <-ctx.Done():
		return nil, fmt.Errorf("idle: the page was not finished: %w", context.Cause(ctx))
	}
	if b.isClosed() {
		return nil, ErrClosed
	}
	return slices.DeleteFunc(infos, func(i Info) bool { return i.of == nil }), nil
}

// info describes the connection of j. The result is zero if that has ended meanwhile.
func (s *Shard) info(c *Conn) Info {
	e, m := &c.entry, momentOf(s.clock)
	phase := e.phase.Load().latest()
	i := Info{
		Label: s.tracker.ends.label(c.owner), Owner: c.owner, Phase: phase.policy.Name,
		Age: m.since(e.born.Load()), IdleIn: m.since(e.in.stamp.Load()), IdleOut: m.since(e.out.stamp.Load()),
		Busy: e.isBusy(),
		of:   c,
	}
	snap := snapshot{moment: m}
	e.snapshot(&snap)
	i.Misses = snap.misses(&phase.policy)
	f := snap.forecast(phase.limits)
	until := func(d deadline) time.Duration { return -m.after(d.at) + s.clock.Slack }
	if f.next.terms != nil {
		i.Next, i.NextIn, i.NextBy = f.next.what.String(), until(f.next), f.next.terms.reason
	}
	if f.end.terms != nil {
		i.EndsIn, i.EndsBy = until(f.end), f.end.terms.reason
	}
	return i
}
