package idle

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// ErrFull is returned by Track when the capacity allows no other connection; see
// [Capacity].
var ErrFull = errors.New("idle: no room for another connection")

// Capacity limits how many connections a tracker has. Every field is off when zero.
type Capacity struct {
	// Most is how many connections there may be. When there are as many, a new one takes
	// the place of one that is among the most idle 1 % on average: the most idle of 100 that
	// are looked at at random. That one is ended with [ReasonEvict] in the next pass, so there
	// are a few more for some milliseconds, or for as long as the loop of such a connection is
	// blocked. If none can be evicted, Track fails with [ErrFull] at once, and Stats.Refused
	// counts that. If only one of hundreds can be, it may not be found.
	MaxConns int

	// Grace is how long a connection has to have been idle before it may be evicted. Use
	// more than honest clients are silent, or an attacker flushes them out by opening
	// connections. An attacker who opens them all the time keeps newcomers waiting, or
	// has them refused, for as long; PerKey helps against one with few addresses.
	MinIdle time.Duration

	// Exempt are phases whose connections are not evicted. Busy connections never are;
	// see [Tracker.Drain].
	Exempt []*Phase

	// PerKey is how many connections there may be with the same key. More are refused
	// with [ErrFull]; none is evicted for them. Key returns the key of a connection, and
	// is [ByAddress] by default. It is called by Track, when the connection has just been
	// accepted, and must not block, as other connections wait for it. The empty key is not
	// limited. If the key is not known yet, as behind the PROXY protocol, return the empty
	// one, and call [Conn.Rekey] later; idlenet does so with ByAddress.
	PerKey int
	Key    func(owner any) string

	// New is how many connections may come in a time, and NewPerKey how many of the same
	// key. More are refused with [ErrFull], and Stats.RefusedRate counts them; none is
	// evicted for them.
	New, NewPerKey Quota
}

// isZero reports whether c sets nothing.
func (c *Capacity) isZero() bool {
	return c.MaxConns == 0 && !c.counts() && c.MinIdle == 0 && len(c.Exempt) == 0 && c.New == Quota{}
}

// counts reports whether c limits connections by key.
func (c *Capacity) counts() bool { return c.PerKey > 0 || c.NewPerKey != Quota{} }

func (c *Capacity) validate(k *clock.Clock) error {
	switch {
	case c.MaxConns < 0:
		return fmt.Errorf("idle: Capacity.MaxConns is %d; use 0 for no limit", c.MaxConns)
	case c.PerKey < 0:
		return fmt.Errorf("idle: Capacity.PerKey is %d; use 0 for no limit", c.PerKey)
	case c.Key != nil && !c.counts():
		return errors.New("idle: Capacity.Key is set, but PerKey is 0, and NewPerKey too; set one of them")
	}
	for i, p := range c.Exempt {
		if p == nil || p.clock != k {
			return fmt.Errorf("idle: Capacity.Exempt[%d] is nil or a phase of another tracker; make it with Phase of this one", i)
		}
	}
	return cmp.Or(notNegative("Capacity.MinIdle", c.MinIdle), c.New.validate("Capacity.New"), c.NewPerKey.validate("Capacity.NewPerKey"))
}
