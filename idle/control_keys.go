package idle

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/idlewheel/idlewheel/idle/internal/callbacks"
)

// keys counts connections by a key, such as the client's address.
type keys struct {
	calls *callbacks.Runner
	limit atomic.Pointer[Capacity]

	mu     sync.Mutex
	of     map[*Conn]keyed
	count  map[string]ofKey
	quotas quotas
}

// ofKey is how many connections a key has.
type ofKey struct{ all, early int }

// keyed says how a connection is counted.
type keyed struct {
	key   string
	early bool // it counts as one in the handshake too
}

// A refusal is [ErrFull] because of one limit. The text is also the cause of connections that
// Rekey ends.
type refusal string

const (
	errRate      refusal = "too many connections in so short a time"
	errKey       refusal = "too many of its key"
	errHandshake refusal = "too many connections in the handshake"
)

func (r refusal) Error() string { return string(r) + ": " + ErrFull.Error() }
func (r refusal) Unwrap() error { return ErrFull }

// set sets the limits of c. An unchanged quota keeps its state. If Key may be another function
// now, set returns true. Then all connections have to be counted again.
func (k *keys) set(c *Capacity) (again bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.limit.Swap(c)
	if k.quotas.Quota != c.NewPerKey {
		k.quotas = quotas{Quota: c.NewPerKey, of: map[string]*rate.Limiter{}}
	}
	return was == nil || was.Key != nil || c.Key != nil
}

// enter counts c. It fails if there are enough connections with its key, unless c is known. If c
// is counted already, it has no effect, except that a known one counts with its present key. It
// has no effect either if c has ended: that comes before leave, which takes the lock.
//
// Key is called without the lock, and meanwhile c may be counted with a later key:
//
//	SetCapacity: calls Key, which doesn't know the address yet
//	Rekey:       calls Key, which does, and counts c
//	SetCapacity: finds that c isn't counted as before, and leaves it alone
func (k *keys) enter(c *Conn, owner any, known bool) error {
	if k == nil {
		return nil
	}
	before := k.keyedAs(c)
	key := k.keyOf(owner)
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.state.Load()&(live|entering) == 0 {
		return nil
	}
	if was := k.of[c].key; was != before || was != "" && (!known || key == was) {
		return nil
	}
	k.remove(c)
	// Under the lock: endHandshake drops the flag first, and then takes the lock.
	early := c.state.Load()&handshaking != 0
	n := k.count[key]
	switch l := k.limit.Load(); {
	case key == "":
		return nil
	case known:
	case l.PerKey > 0 && n.all >= l.PerKey:
		return fmt.Errorf("%d connections of %s: %w", l.PerKey, key, errKey)
	case early && l.HandshakesPerKey > 0 && n.early >= l.HandshakesPerKey:
		return fmt.Errorf("%d connections of %s: %w", l.HandshakesPerKey, key, errHandshake)
	case k.quotas.PerSecond > 0 && !k.quotas.allow(key):
		return fmt.Errorf("connections of %s: %w", key, errRate)
	}
	k.of[c] = keyed{key, early}
	n.all++
	if early {
		n.early++
	}
	k.count[key] = n
	return nil
}

// capacity returns the limits of k, or nil if k is nil.
func (k *keys) capacity() *Capacity {
	if k == nil {
		return nil
	}
	return k.limit.Load()
}

// keyedAs returns the key by which c is counted, or "" if it is not.
func (k *keys) keyedAs(c *Conn) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.of[c].key
}

// adopt counts c, which is tracked already.
func (k *keys) adopt(c *Conn) { _ = k.enter(c, c.owner, true) }

// leave takes c out of the count.
func (k *keys) leave(c *Conn) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remove(c)
}

// remove is leave with k.mu held.
func (k *keys) remove(c *Conn) {
	is, has := k.of[c]
	if !has {
		return
	}
	delete(k.of, c)
	n := k.count[is.key]
	n.all--
	if is.early {
		n.early--
	}
	if k.count[is.key] = n; n.all == 0 {
		delete(k.count, is.key)
	}
}

// endHandshake takes c, whose flag has been dropped, out of the count of those in the handshake.
func (k *keys) endHandshake(c *Conn) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if is := k.of[c]; is.early {
		k.of[c] = keyed{key: is.key}
		n := k.count[is.key]
		n.early--
		k.count[is.key] = n
	}
}

// keyOf calls the user's Key. The result is empty if that panics.
func (k *keys) keyOf(owner any) (key string) {
	of := k.limit.Load().Key
	if of == nil {
		of = ByAddress
	}
	k.calls.Guard("Key", func() { key = of(owner) })
	return key
}

// ByAddress is the default of Capacity.Key. It returns the IP address of the owner's peer, or the
// /64 to which an IPv6 address belongs. It gets the address in the same way as Options.Label. If
// there is no address, or if it isn't known yet, ByAddress returns "", which isn't counted.
func ByAddress(owner any) string {
	addr, ok := knownAddr(owner).(interface{ AddrPort() netip.AddrPort })
	if !ok {
		return ""
	}
	ip := addr.AddrPort().Addr().Unmap().WithZone("")
	if ip.Is6() {
		net, _ := ip.Prefix(64)
		return net.String()
	}
	if !ip.IsValid() {
		return ""
	}
	return ip.String()
}

// refusals are how many connections were refused, and how many of them by which limit.
type refusals struct{ all, key, rate, handshake atomic.Uint64 }

func (r *refusals) count(err error) {
	r.all.Add(1)
	switch {
	case errors.Is(err, errKey):
		r.key.Add(1)
	case errors.Is(err, errRate):
		r.rate.Add(1)
	case errors.Is(err, errHandshake):
		r.handshake.Add(1)
	}
}

// A Quota limits the rate of new connections. The zero Quota is no limit.
type Quota struct {
	PerSecond float64
	Burst     int // how many may come at once; the default is the number per second, at least 1
}

func (q Quota) limiter() *rate.Limiter {
	return rate.NewLimiter(rate.Limit(q.PerSecond), q.burst())
}

func (q Quota) burst() int {
	if q.Burst > 0 {
		return q.Burst
	}
	return int(max(1, min(math.Ceil(q.PerSecond), math.MaxInt32)))
}

func (q Quota) validate(field string) error {
	switch {
	case !(q.PerSecond >= 0) || math.IsInf(q.PerSecond, 0):
		return fmt.Errorf("idle: %s.PerSecond is %v; use 0 for no limit", field, q.PerSecond)
	case q.Burst < 0:
		return fmt.Errorf("idle: %s.Burst is %d; use 0 for a default", field, q.Burst)
	case q.Burst > 0 && q.PerSecond == 0:
		return fmt.Errorf("idle: %s.Burst is %d, but PerSecond is 0; set PerSecond too", field, q.Burst)
	}
	return nil
}

// quotas has a limiter for each key that has come lately.
type quotas struct {
	Quota
	of   map[string]*rate.Limiter
	most int // when there are this many, those that are full are removed
}

const fewQuotas = 1024

// allow reports whether another connection of a key may come.
func (q *quotas) allow(key string) bool {
	l := q.of[key]
	if l == nil {
		if len(q.of) >= max(q.most, fewQuotas) {
			q.sweep()
		}
		l = q.limiter()
		q.of[key] = l
	}
	return l.Allow()
}

// sweep removes the limiters that are full.
func (q *quotas) sweep() {
	for key, l := range q.of {
		if l.Tokens() >= float64(q.burst()) {
			delete(q.of, key)
		}
	}
	q.most = 2 * len(q.of)
}

// countKeys starts or stops counting connections by key, as c says.
func (t *Tracker) countKeys(c *Capacity) {
	if !c.counts() {
		t.keys.Store(nil)
		return
	}
	k := t.keys.Load()
	if k == nil {
		k = &keys{calls: &t.calls, of: map[*Conn]keyed{}, count: map[string]ofKey{}}
	}
	again := k.set(c)
	t.keys.Store(k)
	if !again {
		return
	}
	for _, s := range t.own {
		for _, c := range s.present() {
			if c.Live() {
				k.adopt(c)
			}
		}
	}
	t.walk(func(s *Shard, c *Conn) {
		if s.loop { // Key has to be called on the loop
			k.adopt(c)
		}
	})
}

// Rekey calls Key of the tracker's [Capacity] again. It's for a connection whose key was empty
// when it was tracked, because its address wasn't known yet. If PerKey, NewPerKey or
// HandshakesPerKey allow no other connection with that key, the connection ends with
// [ReasonEvict], whether it's busy or not, and Rekey returns false. An owner that calls Rekey before
// its application gets any input can then discard that input, so that no request is cut.
//
// If Track of the connection is still running, on another goroutine, Rekey returns true without a
// decision. Call it again when Track has returned: that call decides. (Track itself calls Key again
// at its end, so that such a connection is counted even without the second call.) Rekey has no
// effect on a connection that isn't tracked. Any goroutine may call it.
func (c *Conn) Rekey() (allowed bool) {
	if c.state.move(entering, rekeyed, 0) || !c.Live() {
		return true
	}
	if c.state.Load()&dismissed != 0 { // by an earlier call, or by End
		return false
	}
	s := c.shard
	if err := s.tracker.keys.Load().enter(c, c.owner, false); err != nil {
		var why refusal
		errors.As(err, &why)
		c.state.move(live, dismissed, 0)
		return !s.force(c, ReasonEvict, string(why))
	}
	return true
}
