// Package census counts and lists the live connections of a tracker, for metrics and pages.
package census

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A Census is what a visit of all connections has found. The visit may meet a connection twice,
// which is rare (see [idle.Tracker.Visit]). Such a connection is counted and listed twice.
type Census struct {
	At         time.Time        // when it began
	Took       time.Duration    // how long it took
	Live       int              // all connections
	Phases     map[string]Phase // by Policy.Name
	Idle, Age  idle.Histogram   // of all connections
	Ending     [len(Within)]int // connections that are overdue, or end within such a time if nothing moves
	Unsent     uint64           // bytes that wait for peers; see [idle.Info.Unsent]
	WithUnsent int              // connections with such bytes
	Lists      map[Order][]Conn // the first connections in each of the orders
}

// A Phase has the connections whose policies have the same name.
type Phase struct {
	Live   int
	Policy idle.Policy // of one of them, as it is in force
}

// Within has the times for which Census.Ending counts.
var Within = [...]time.Duration{time.Second, 10 * time.Second, time.Minute}

// A Conn describes a listed connection. See [idle.Info] for its fields. It doesn't keep the connection
// from being freed.
type Conn struct {
	Label, Phase string
	Age, Idle    time.Duration
	Busy         bool
	EndsIn       time.Duration
	EndsBy       idle.Reason
	Unsent       int // bytes
}

// An Order says which connections come first in a list.
type Order int

const (
	MostIdle Order = iota
	Oldest
	NextToEnd
	MostUnsent
)

// rank is higher for connections that come earlier in the list.
func (o Order) rank(c *Conn) int64 {
	switch {
	case o == MostIdle:
		return int64(c.Idle)
	case o == Oldest:
		return int64(c.Age)
	case o == MostUnsent:
		return int64(c.Unsent)
	case c.EndsBy == 0:
		return math.MinInt64
	}
	return -int64(c.EndsIn)
}

// Take takes a census. For each of the orders, it lists the first n connections. It fails as
// [idle.Tracker.Visit] does.
func Take(ctx context.Context, t *idle.Tracker, n int, orders ...Order) (*Census, error) {
	c := &Census{At: time.Now(), Phases: map[string]Phase{}, Lists: map[Order][]Conn{}}
	least := map[Order]int64{} // the rank of the last of a list, once that was cut
	cut := func(o Order) {
		list := c.Lists[o]
		slices.SortFunc(list, func(a, b Conn) int { return cmp.Compare(o.rank(&b), o.rank(&a)) })
		if len(list) > n {
			list, least[o] = list[:n], o.rank(&list[n-1])
		}
		c.Lists[o] = list
	}
	err := t.Visit(ctx, func(i idle.Info) {
		conn := Conn{Phase: i.Phase, Age: i.Age, Idle: i.Idle, Busy: i.Busy, EndsIn: i.EndsIn, EndsBy: i.EndsBy, Unsent: i.Unsent()}
		c.count(&conn)
		p, known := c.Phases[i.Phase]
		if p.Live++; !known {
			p.Policy = i.Policy()
		}
		c.Phases[i.Phase] = p
		for _, o := range orders {
			if least, ok := least[o]; ok && o.rank(&conn) <= least {
				continue
			}
			if conn.Label == "" {
				conn.Label = i.Label()
			}
			if c.Lists[o] = append(c.Lists[o], conn); len(c.Lists[o]) == 2*n {
				cut(o)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	for _, o := range orders {
		cut(o)
	}
	c.Took = time.Since(c.At)
	return c, nil
}

// count counts a connection.
func (c *Census) count(conn *Conn) {
	c.Live++
	note(&c.Idle, conn.Idle)
	note(&c.Age, conn.Age)
	for i, within := range Within {
		if conn.EndsBy != 0 && conn.EndsIn <= within {
			c.Ending[i]++
		}
	}
	if conn.Unsent > 0 {
		c.Unsent += uint64(conn.Unsent)
		c.WithUnsent++
	}
}

// note adds a duration to h.
func note(h *idle.Histogram, d time.Duration) {
	h.Buckets[sort.Search(idle.NumBuckets-1, func(i int) bool { return d <= idle.BucketBound(i) })]++
	h.SumMicros += uint64(max(d, 0).Microseconds())
}
