// Package admit limits the connections that a server accepts: how many are open with the same
// key, such as the client's address, and how many arrive per second, in all and per key.
//
// A [Gate] belongs directly above the sockets, or above the library that reads the PROXY protocol.
// Timeouts and TLS belong above the gate, as in tls.NewListener(gate.Listener(ln), config).
package admit

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/time/rate"
)

// ErrRefused is wrapped by the error of a refused connection, which names the limit too.
var ErrRefused = errors.New("admit: too many connections")

// Limits are the limits of a [Gate]. A zero field is no limit, and a negative one is an error.
type Limits struct {
	PerKey         int   // open connections with the same key
	New, NewPerKey Quota // new connections, in all and with the same key

	// Key returns the key of a client's address, or "" for no limit per key. Nil is [ByAddress].
	// The gate is locked during the call, so Key must be fast and not call the gate. If it panics,
	// so does the caller (Accept, Read, Enter or SetLimits), and the gate hasn't changed.
	Key func(net.Addr) string
}

func (l *Limits) keyOf(addr net.Addr) string {
	if addr == nil || l.Key == nil {
		return ByAddress(addr)
	}
	return l.Key(addr)
}

// ByAddress returns the IP address of addr, or the /64 of an IPv6 address. If addr has no IP
// address, it returns "".
func ByAddress(addr net.Addr) string {
	a, ok := addr.(interface{ AddrPort() netip.AddrPort })
	if !ok || !a.AddrPort().IsValid() {
		return ""
	}
	ip := a.AddrPort().Addr().Unmap()
	if ip.Is6() {
		return netip.PrefixFrom(ip, 64).Masked().String()
	}
	return ip.String()
}

// A Quota limits a rate. The zero Quota is no limit.
type Quota struct {
	PerSecond float64
	Burst     int // how many may come at once; 0 means PerSecond, rounded up
}

func (q Quota) validate(field string) error {
	if q == (Quota{}) || q.PerSecond > 0 && !math.IsInf(q.PerSecond, 0) && q.Burst >= 0 {
		return nil
	}
	return fmt.Errorf("admit: Limits.%s is %+v; use a positive PerSecond and no negative Burst, or the zero Quota for no limit", field, q)
}

func (q Quota) limiter() *rate.Limiter {
	burst := cmp.Or(q.Burst, int(min(math.Ceil(q.PerSecond), math.MaxInt32)))
	return rate.NewLimiter(rate.Limit(q.PerSecond), burst)
}

// A Gate counts connections and refuses those that its [Limits] don't allow. Several listeners may
// share one. Any goroutine may call its methods. Make it with [New].
type Gate struct {
	mu       sync.Mutex
	limits   Limits
	open     map[*entry]string        // the keys of connections that are counted
	perKey   map[string]int           // how many of open have the key; inexact for "", which has no limit
	all      *rate.Limiter            // for Limits.New
	limiters map[string]*rate.Limiter // for Limits.NewPerKey
	sweepAt  int                      // see limiter
	stats    Stats
}

// New returns a gate. It fails if a limit is invalid.
func New(l Limits) (*Gate, error) {
	g := &Gate{open: map[*entry]string{}, perKey: map[string]int{}}
	if err := g.SetLimits(l); err != nil {
		return nil, err
	}
	return g, nil
}

// SetLimits replaces the limits. It closes no connection, but open ones count, by the new Key. A
// Quota that stays the same isn't refilled. If a limit is invalid, SetLimits returns an error that
// names it, and changes nothing.
func (g *Gate) SetLimits(l Limits) error {
	if l.PerKey < 0 {
		return fmt.Errorf("admit: Limits.PerKey is %d; use 0 for no limit", l.PerKey)
	}
	if err := cmp.Or(l.New.validate("New"), l.NewPerKey.validate("NewPerKey")); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.Key != nil || g.limits.Key != nil { // maybe another one: functions can't be compared
		open, perKey := map[*entry]string{}, map[string]int{}
		for e := range g.open {
			open[e] = l.keyOf(e.addr)
			perKey[open[e]]++
		}
		g.open, g.perKey = open, perKey
	}
	if l.New != g.limits.New {
		g.all = l.New.limiter()
	}
	if l.NewPerKey != g.limits.NewPerKey {
		g.limiters = map[string]*rate.Limiter{}
	}
	g.limits = l
	return nil
}

// Enter counts a connection until leave is called. It's for servers without a net.Listener. If a
// limit refuses the connection, err wraps [ErrRefused], and leave does nothing. leave may be called
// more than once, by any goroutine.
func (g *Gate) Enter(addr net.Addr) (leave func(), err error) {
	e := &entry{gate: g}
	return e.leave, e.count(addr, false)
}

// Stats are the counts of a [Gate].
type Stats struct {
	Open                   int    // connections that are open
	PerKey, New, NewPerKey uint64 // connections that this limit has refused
}

// Stats returns the counts.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stats.Open = len(g.open)
	return g.stats
}

// An entry is a connection. It's counted while it is in gate.open.
type entry struct {
	gate *Gate
	addr net.Addr
}

// count counts e unless a limit refuses it. If the address isn't known yet, addr is nil, and count
// is called again later. That call does nothing if e has left.
func (e *entry) count(addr net.Addr, again bool) error {
	g, l := e.gate, &e.gate.limits
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, counted := g.open[e]; again && !counted {
		return nil
	}
	key := l.keyOf(addr)
	switch {
	case key != "" && l.PerKey > 0 && g.perKey[key] >= l.PerKey:
		g.stats.PerKey++
		return fmt.Errorf("%w: Limits.PerKey allows %d of %s", ErrRefused, l.PerKey, key)
	case key != "" && l.NewPerKey.PerSecond > 0 && !g.limiter(key).Allow():
		g.stats.NewPerKey++
		return fmt.Errorf("%w: Limits.NewPerKey allows %v per second of %s", ErrRefused, l.NewPerKey.PerSecond, key)
	case !again && l.New.PerSecond > 0 && !g.all.Allow(): // last: what the others refuse doesn't use it up
		g.stats.New++
		return fmt.Errorf("%w: Limits.New allows %v per second", ErrRefused, l.New.PerSecond)
	}
	e.addr, g.open[e] = addr, key
	g.perKey[key]++
	return nil
}

// leave ends the count of e. Only the first call has an effect.
func (e *entry) leave() {
	g := e.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if key, counted := g.open[e]; counted {
		delete(g.open, e)
		if g.perKey[key]--; g.perKey[key] <= 0 {
			delete(g.perKey, key)
		}
	}
}

// limiter returns the limiter of the key. Full ones are as good as new, so they are removed each
// time that the map has doubled.
func (g *Gate) limiter(key string) *rate.Limiter {
	if g.limiters[key] == nil {
		if len(g.limiters) >= g.sweepAt {
			maps.DeleteFunc(g.limiters, func(_ string, l *rate.Limiter) bool { return l.Tokens() >= float64(l.Burst()) })
			g.sweepAt = max(2*len(g.limiters), 1024)
		}
		g.limiters[key] = g.limits.NewPerKey.limiter()
	}
	return g.limiters[key]
}
