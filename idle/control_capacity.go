package idle

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrFull is returned by Track when the capacity allows no other connection; see
// [Capacity].
var ErrFull = errors.New("idle: no room for another connection")

// Capacity limits how many connections a tracker has. Every field is off when zero, and must not
// be negative. If a limit leaves no room for a new connection, Track refuses it with [ErrFull].
// Stats.Refused counts these, and RefusedKey, RefusedRate and RefusedHandshake those of one limit.
// Of these limits, only MaxConns evicts others for a new connection.
type Capacity struct {
	// MaxConns is how many connections there may be. When there are that many, a new one takes
	// the place of another: the one idle longest of 100 at random, which on average is among the
	// most idle 1 %. The evicted connection ends with [ReasonEvict] in the next pass. So for some
	// milliseconds, or for as long as its event loop is blocked, there are a few connections
	// more. If none of 400 at random may be evicted, the new one is refused.
	MaxConns int

	// MinIdle is how long a connection has to be idle before it may be evicted. With zero, a
	// connection that isn't busy may be evicted even if it has just been used. Choose a
	// longer time than honest clients are silent, or an attacker can flush them out by opening
	// connections. An attacker who opens connections all the time can hold all places until the
	// attacker's own connections have been idle for MinIdle. Until then newcomers are refused.
	// PerKey helps if the attacker has few addresses. If pings count as use
	// (Heartbeat.CountsAsUse), MinIdle must be less than their Interval.
	MinIdle time.Duration

	// Exempt lists phases whose connections aren't evicted. Nor are busy ones; see [Tracker.Drain].
	Exempt []*Phase

	// PerKey is how many connections there may be with the same key.
	//
	// Key returns the key of a connection. The default is [ByAddress]. The owner is a *Conn of
	// idlenet or idlegnet; in the HTTP adapters and idlegrpc it's a net.Conn. Track calls Key when the
	// connection has just been accepted. It must not block, because other connections wait for
	// it. SetCapacity waits for it too, so Key must not call SetCapacity, nor lock a mutex that the
	// caller of SetCapacity holds. The empty key isn't limited. If the key isn't known yet, such as behind the PROXY
	// protocol, return the empty one. The adapters of connections of package net call Key again
	// when the address is known; others call [Conn.Rekey].
	PerKey int
	Key    func(owner any) string

	// New limits the rate of new connections, and NewPerKey the rate of those with the same key.
	New, NewPerKey Quota

	// Handshakes is how many connections there may be in the handshake, and HandshakesPerKey
	// how many of these with the same key. A connection is in the handshake if it was tracked
	// after the limit was set and has only been in phases with Policy.Handshake. The tracker's
	// own policy must have Handshake set too. In the HTTP adapters the handshake lasts until
	// the first request, or the preface of HTTP/2.
	Handshakes, HandshakesPerKey int
}

// isZero reports whether c sets nothing.
func (c *Capacity) isZero() bool {
	return c.MaxConns == 0 && !c.counts() && c.MinIdle == 0 && len(c.Exempt) == 0 && c.New == Quota{} && c.Handshakes == 0
}

// counts reports whether c limits connections by key.
func (c *Capacity) counts() bool {
	return c.PerKey > 0 || c.NewPerKey != Quota{} || c.HandshakesPerKey > 0
}

// limitsHandshakes reports whether new connections count as ones in the handshake. c may be nil.
func (c *Capacity) limitsHandshakes() bool {
	return c != nil && (c.Handshakes > 0 || c.HandshakesPerKey > 0)
}

func (c *Capacity) validate(t *Tracker) error {
	switch {
	case c.MaxConns < 0:
		return fmt.Errorf("idle: Capacity.MaxConns is %d; use 0 for no limit", c.MaxConns)
	case c.PerKey < 0:
		return fmt.Errorf("idle: Capacity.PerKey is %d; use 0 for no limit", c.PerKey)
	case c.Handshakes < 0:
		return fmt.Errorf("idle: Capacity.Handshakes is %d; use 0 for no limit", c.Handshakes)
	case c.HandshakesPerKey < 0:
		return fmt.Errorf("idle: Capacity.HandshakesPerKey is %d; use 0 for no limit", c.HandshakesPerKey)
	case c.Key != nil && !c.counts():
		return errors.New("idle: Capacity.Key is set, but PerKey is 0, and NewPerKey and HandshakesPerKey too; set one of them")
	}
	for i, p := range c.Exempt {
		if p == nil || p.clock != t.clock {
			return fmt.Errorf("idle: Capacity.Exempt[%d] is nil or a phase of another tracker; make it with Phase of this one", i)
		}
	}
	return cmp.Or(checkDuration("Capacity.MinIdle", c.MinIdle), c.New.validate("Capacity.New"), c.NewPerKey.validate("Capacity.NewPerKey"),
		c.suits(t, t.phase.Policy()))
}

// suits returns an error if c couldn't limit connections that begin with the policy p. c may be
// nil.
func (c *Capacity) suits(t *Tracker, p Policy) error {
	h := p.Heartbeat
	switch {
	case c == nil:
	case c.limitsHandshakes() && !p.Handshake:
		return c.errHandshakePolicy()
	case !t.opts.PhasesOnly && !slices.Contains(c.Exempt, t.phase) && h.CountsAsUse && c.MinIdle >= h.Interval:
		return fmt.Errorf("idle: Capacity.MinIdle is %v, but connections are pinged every %v, and Heartbeat.CountsAsUse is set, so none would be evicted; use less than the Interval, or don't set CountsAsUse", c.MinIdle, h.Interval)
	}
	return nil
}

// errHandshakePolicy is the error for Handshakes or HandshakesPerKey that would limit nothing.
func (c *Capacity) errHandshakePolicy() error {
	name, most := "Handshakes", c.Handshakes
	if most == 0 {
		name, most = "HandshakesPerKey", c.HandshakesPerKey
	}
	return fmt.Errorf("idle: Capacity.%s is %d, but the policy with which connections begin does not have Handshake set, so none would count; set it, and have connections enter another phase after the handshake", name, most)
}

// SetCapacity sets or changes the capacity of t. The zero Capacity lifts all its limits.
//
// If there are more connections than MaxConns, newcomers are refused, and the most idle connections
// are evicted at once. Those that may not be evicted yet follow when they may. Evictions stop when
// the capacity is raised or lifted.
//
// Connections that exceed PerKey stay. Connections that are open already are counted by key before
// SetCapacity returns, which takes about a second for a million of them. Those of an event loop
// are counted in its next pass instead, a moment after SetCapacity has returned. If Key is a new
// function, a connection counts with its old key until then.
//
// SetCapacity fails with [ErrClosed] if the tracker is closed, and with an error that names the
// field if a value in c is invalid. Then nothing changes.
func (t *Tracker) SetCapacity(c Capacity) error {
	t.mustBeMade()
	r := &t.room
	r.setting.Lock()
	defer r.setting.Unlock()
	c.Exempt = slices.Clone(c.Exempt)
	if err := t.setLimit(&c); err != nil {
		return err
	}
	t.countKeys(&c)
	r.setQuota(c.New)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	return nil
}

// setLimit checks and stores c. It holds t.mu, as SetPolicy does when it compares a policy with
// the capacity.
func (t *Tracker) setLimit(c *Capacity) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := c.validate(t); err != nil {
		return err
	}
	switch {
	case t.closed:
		return ErrClosed
	case c.isZero():
		t.room.limit.Store(nil)
	default:
		t.room.limit.Store(c)
	}
	return nil
}

// Capacity returns the capacity of t. ok is false if it has none.
func (t *Tracker) Capacity() (c Capacity, ok bool) {
	t.mustBeMade()
	l := t.room.limit.Load()
	if l == nil {
		return c, false
	}
	c = *l
	c.Exempt = slices.Clone(c.Exempt)
	return c, true
}

// EvictIdle evicts up to n of the most idle connections, as [Capacity] allows, and returns how
// many will end shortly. It's for adapters that run out of something other than MaxConns, such as
// descriptors. Without a Capacity it does nothing.
func (t *Tracker) EvictIdle(n int) (evicted int) {
	t.mustBeMade()
	r := &t.room
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := r.limit.Load(); l != nil && evicted < n && r.evictOne(l, 0); {
		evicted++
	}
	return evicted
}
