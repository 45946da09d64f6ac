package idle

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// Policy sets the limits of a connection. Every field is off when zero, and must
// not be negative. No limit may be longer than 2²⁸ ticks, which are 31 days with a tick of 10 ms.
//
// Durations are rounded up to whole ticks. No limit takes effect before it has
// passed, and each takes effect at most this much later:
//
//   - a limit of whole ticks: 1⅛ ticks; any other: 2⅛;
//   - a minimum rate, if a wait lasts: 3¼ ticks, and an eighth of its Grace;
//   - MaxAge with a MaxAgeGrace: the lateness of both together;
//   - an active Heartbeat: the lateness of its Interval, and of its Timeout once for
//     each of the Misses.
//
// If input is unread when a limit has passed, or when a drain or an eviction would end the connection, the server may
// be about to read it. So unread input counts like input for IdleTimeout, ReadTimeout and an active Heartbeat, as if
// it had arrived a tick before. It delays PhaseTimeout, MinReadRate, a passive Heartbeat, and IdleTimeout with
// ExplicitUse by five ticks. Both happen only once until the server reads.
//
// If one limit turns out not to have passed when it's checked, a timeout by another one may come a
// tick later than this list says. If two pass in the same tick, the error names the one whose
// [Reason] comes first.
//
// [New] and [Tracker.Phase] copy the Policy that they are given.
type Policy struct {
	// Name is the name of the phase with this policy, for errors and counts. It may be empty, and
	// may have at most 128 bytes.
	Name string

	// NoInterrupt says that connections in this phase are busy, such as with a request. No limit depends on it.
	// Evictions spare them, and a [Tracker.Drain] calls OnDrain, but spares them until they enter another phase, or its
	// ForceAfter.
	NoInterrupt bool

	// ExplicitUse says that only [Conn.Use] counts as use of the connection. Without it every byte does, in either direction.
	// IdleTimeout, evictions, the order of a [Tracker.Drain], [Conn.Idle] and [Info] go by use. Set it if pings,
	// or other messages that a client sends without being asked by its user, must not keep a connection from being idle.
	// The other limits don't depend on it.
	ExplicitUse bool

	// IdleTimeout limits the time without use of the connection.
	IdleTimeout time.Duration

	// ReadTimeout limits how long the server waits for bytes without any arriving.
	ReadTimeout time.Duration

	// WriteTimeout limits how long output may wait without progress.
	WriteTimeout time.Duration

	// PhaseTimeout limits the time under this policy, since tracking began or the
	// policy was last entered. Only an OnTimeout that keeps the connection extends it. It's for input that has
	// to be complete by some time, such as a handshake or the header of a request.
	PhaseTimeout time.Duration

	// MaxAge limits the time since tracking began. MaxAgeJitter adds a random time up to its value to the
	// limit of each connection, so that connections made together do not end together.
	//
	// With a MaxAgeGrace, the owner is asked to finish when MaxAge has passed ([Hooks].OnDrain), and
	// the connection ends that much later. If MaxAge has passed already when a connection gets
	// this policy, by Enter or SetPolicy, the owner is asked at once, and the grace counts
	// from then. An owner that has been asked since MaxAge passed isn't asked again: the
	// connection ends when the grace has passed since it was asked. If a [Tracker.Drain] asks it
	// again, the grace counts from then.
	//
	// OnTimeout isn't asked about MaxAge.
	MaxAge       time.Duration
	MaxAgeJitter time.Duration
	MaxAgeGrace  time.Duration

	Heartbeat Heartbeat

	// MinReadRate and MinWriteRate limit slow peers. The rate is an average since the phase
	// began (a fast peer's lead is limited, see [Rate]), over the time in which the server waited
	// for bytes, or bytes waited to be sent. MinWriteRate counts the bytes that left for the peer during those waits, if the
	// system reports their number (Linux), and otherwise the bytes that the kernel accepted.
	//
	// At first, up to three ticks of each pause between waits count as waiting, because reading the clock would cost
	// more than the rest of a read. If a rate then looks missed by an eighth of its Grace, the Grace starts over, and
	// all later waits of the connection are measured exactly, also under later policies. Only measured waits end a
	// connection. Until waits are measured, these parts also use up credit from earlier bytes.
	//
	// A rate is checked once a tick, and takes effect only if there is a wait at that moment.
	MinReadRate  Rate
	MinWriteRate Rate
}

// Heartbeat distinguishes a silent peer from a dead one. It is off when all
// fields are zero. An Interval of zero beside other fields is an error, so leave all of them out if
// a client asks for no keepalive.
//
// In the active form, the owner is asked to ping ([Hooks].Ping) when nothing has arrived for
// Interval. If nothing arrives within Timeout after the ping, that's a miss, and the owner is
// asked again. After Misses of them in a row, the connection times out. Any byte that arrives
// clears the misses.
//
// In the passive form the owner doesn't ping. The peer must send a beat ([Conn.Beat]) every Interval; other bytes
// don't count. An interval without a beat is a miss. A beat that isn't read yet counts as none, except that unread
// input delays the end by five ticks, once. The connection times out after Misses intervals and a Timeout. MQTT
// allows one and a half times the keepalive k: that is Interval k and Timeout k/2.
//
// So a silent peer is timed out after Interval + Misses*Timeout in the active form, and after
// Misses*Interval + Timeout in the passive one.
//
// The keep-alive of TCP, which package net turns on, finds hosts that have vanished, but no
// processes that hang. A Heartbeat finds both, so it can replace that.
//
// Pings and their answers are bytes, so they count as use of the connection. So an IdleTimeout longer than the Interval of an
// active Heartbeat would never pass, and is an error, unless Policy.ExplicitUse is set.
//
// A Heartbeat doesn't limit how often a peer beats. To do that, count the beats with a
// rate limiter and call [Conn.End]; package idlenet has an example.
type Heartbeat struct {
	Interval time.Duration
	Timeout  time.Duration // active: required; passive: may be zero
	Misses   int           // consecutive misses that end the connection; 0 means 1; at most 100
	Passive  bool

	// Jitter makes each Interval shorter by up to its value. By how much differs between
	// connections, so that connections made together aren't pinged together. It must be at most
	// the Interval, and is only for the active form. A silent peer may be timed out
	// earlier, by up to Jitter.
	Jitter time.Duration
}

// Rate is a minimum rate. It is off when BytesPerSecond is zero. Grace is the time for a slow
// start, and must not be zero. A sender that sends nothing is timed out after Grace, or an eighth of it later if its waits
// aren't measured yet (see [Policy]). Each byte that it sends adds 1/BytesPerSecond seconds. So a fast sender may pause
// later, but for at most a minute more.
type Rate struct {
	BytesPerSecond int
	Grace          time.Duration
}

// SetsLimit reports whether p sets a limit. Name, NoInterrupt and ExplicitUse aren't limits.
func (p Policy) SetsLimit() bool {
	return p != Policy{Name: p.Name, NoInterrupt: p.NoInterrupt, ExplicitUse: p.ExplicitUse}
}

// pingsAreUse reports whether connections under p are pinged, and pings count as use.
func (p *Policy) pingsAreUse() bool {
	return p.Heartbeat.Interval > 0 && !p.Heartbeat.Passive && !p.ExplicitUse
}

func (h *Heartbeat) misses() int { return max(h.Misses, 1) }

// limit returns after how long a silent connection times out under h.
func (h *Heartbeat) limit() time.Duration {
	if h.Passive {
		return time.Duration(h.misses())*h.Interval + h.Timeout
	}
	return h.Interval + time.Duration(h.misses())*h.Timeout
}

var errNoLimit = errors.New("idle: the policy sets no limit; set at least one of IdleTimeout, ReadTimeout, WriteTimeout, MaxAge, Heartbeat, MinReadRate, MinWriteRate, PhaseTimeout")

const (
	maxMisses = 100
	mostLabel = 128 // bytes of a name, a label or a cause
)

// A duration is a field of a policy that has to be a number of ticks, or 0.
type duration struct {
	name  string
	value time.Duration
}

func (p *Policy) durations() []duration {
	return []duration{
		{"IdleTimeout", p.IdleTimeout},
		{"ReadTimeout", p.ReadTimeout},
		{"WriteTimeout", p.WriteTimeout},
		{"MaxAge", p.MaxAge},
		{"MaxAgeJitter", p.MaxAgeJitter},
		{"MaxAgeGrace", p.MaxAgeGrace},
		{"Heartbeat.Interval", p.Heartbeat.Interval},
		{"Heartbeat.Timeout", p.Heartbeat.Timeout},
		{"Heartbeat.Jitter", p.Heartbeat.Jitter},
		{"MinReadRate.Grace", p.MinReadRate.Grace},
		{"MinWriteRate.Grace", p.MinWriteRate.Grace},
		{"PhaseTimeout", p.PhaseTimeout},
	}
}

// validate returns an error if p is invalid with the given tick.
func (p *Policy) validate(tick time.Duration) error {
	if len(p.Name) > mostLabel {
		return fmt.Errorf("idle: Name of a policy has %d bytes (%.20q...); use at most %d", len(p.Name), p.Name, mostLabel)
	}
	longest := clock.MaxTicks * tick
	for _, f := range p.durations() {
		switch name, value := f.name, f.value; {
		case value < 0:
			return fmt.Errorf("idle: %s is %v; use 0 to disable it", name, value)
		case value > 0 && value < tick:
			return fmt.Errorf("idle: %s is %v, shorter than the tick of %v; use a longer timeout (with a unit, like 60*time.Second) or a shorter Options.Tick", name, value, tick)
		case value > longest:
			return fmt.Errorf("idle: %s is %v; with a tick of %v the longest is %v; use a longer Options.Tick, or 0 to disable it", name, value, tick, longest)
		}
	}
	if age := p.MaxAge + p.MaxAgeJitter + p.MaxAgeGrace; age > longest {
		return fmt.Errorf("idle: MaxAge with jitter and grace is %v; with a tick of %v the longest is %v; use a longer Options.Tick, or less of each", age, tick, longest)
	}
	if p.MaxAge == 0 && (p.MaxAgeJitter > 0 || p.MaxAgeGrace > 0) {
		return fmt.Errorf("idle: MaxAge is 0, but MaxAgeJitter is %v and MaxAgeGrace is %v; set MaxAge too", p.MaxAgeJitter, p.MaxAgeGrace)
	}
	if h := p.Heartbeat; p.pingsAreUse() && p.IdleTimeout > h.Interval {
		return fmt.Errorf("idle: IdleTimeout is %v, but connections are pinged every %v, and pings count as use, so it would never pass; set ExplicitUse and call Conn.Use for what is use, or leave IdleTimeout 0", p.IdleTimeout, h.Interval)
	}
	return cmp.Or(
		p.Heartbeat.validate(longest),
		p.MinReadRate.validate("MinReadRate"),
		p.MinWriteRate.validate("MinWriteRate"),
	)
}

func (h *Heartbeat) validate(longest time.Duration) error {
	switch {
	case h.Misses < 0 || h.Misses > maxMisses:
		return fmt.Errorf("idle: Heartbeat.Misses is %d; it must be 0 to %d", h.Misses, maxMisses)
	case h.Interval == 0 && *h != Heartbeat{}:
		return fmt.Errorf("idle: Heartbeat.Interval is 0, but other fields of Heartbeat are set (%+v); set Interval too", *h)
	case h.Interval > 0 && h.Timeout == 0 && !h.Passive:
		return fmt.Errorf("idle: Heartbeat.Timeout is 0; set it to how long the answer to a ping may take")
	case h.Passive && h.Jitter > 0:
		return fmt.Errorf("idle: Heartbeat.Jitter is %v, but Heartbeat is Passive, so there are no pings to spread; use 0", h.Jitter)
	case h.Jitter > h.Interval:
		return fmt.Errorf("idle: Heartbeat.Jitter is %v; it must be at most the Interval of %v", h.Jitter, h.Interval)
	case max(h.Interval, h.Timeout) > longest/time.Duration(h.misses()+1):
		return fmt.Errorf("idle: Heartbeat.Misses is %d, with an Interval of %v and a Timeout of %v; all together must be no longer than %v", h.Misses, h.Interval, h.Timeout, longest)
	}
	return nil
}

func (r *Rate) validate(name string) error {
	switch {
	case r.BytesPerSecond < 0:
		return fmt.Errorf("idle: %s.BytesPerSecond is %d; use 0 to disable it", name, r.BytesPerSecond)
	case r.BytesPerSecond == 0 && r.Grace != 0:
		return fmt.Errorf("idle: %s.BytesPerSecond is 0, but its Grace is %v; set both or none", name, r.Grace)
	case r.BytesPerSecond > 0 && r.Grace == 0:
		return fmt.Errorf("idle: %s.Grace is 0; set it to how long a slow start may take", name)
	}
	return nil
}

// checkDuration returns an error if the named value is negative, or so short that its unit was
// probably forgotten: 30 instead of 30*time.Second.
func checkDuration(name string, d time.Duration) error {
	switch {
	case d < 0:
		return fmt.Errorf("idle: %s is %v; it must not be negative", name, d)
	case 0 < d && d < minTick:
		return fmt.Errorf("idle: %s is %v, shorter than %v; write it with a unit, like 30*time.Second, or use 0", name, d, minTick)
	}
	return nil
}

// Phase is a [Policy] prepared for the connections of one tracker. Any number of
// connections and goroutines may use it; see [Conn.Enter]. [Phase.SetPolicy] replaces
// its policy.
type Phase struct {
	now     atomic.Pointer[limits]
	tracker *Tracker
}

func (p *Phase) limits() *limits { return p.now.Load() }

// Policy returns the current policy of the phase.
func (p *Phase) Policy() Policy { return p.limits().policy }

// Phase makes a phase with the policy p for [Conn.Enter]. If p sets no limit,
// connections in the phase have none. Phase fails if p is invalid, and with [ErrClosed] if
// the tracker is closed.
func (t *Tracker) Phase(p Policy) (*Phase, error) {
	t.mustBeMade()
	if err := p.validate(t.opts.Tick); err != nil {
		return nil, err
	}
	if t.isClosed() {
		return nil, ErrClosed
	}
	ph := &Phase{tracker: t}
	ph.now.Store(t.limitsOf(p, nil))
	return ph, nil
}

// limitsOf returns the limits of p. was are those that they replace, or nil.
func (t *Tracker) limitsOf(p Policy, was *limits) *limits {
	l := limitsOf(p, t.clock, was)
	l.ended = t.byPhase.of(p.Name)
	return l
}

// SetPolicy replaces the policy under which connections begin; see [Phase.SetPolicy]. p must set
// a limit, like the policy given to [New].
func (t *Tracker) SetPolicy(p Policy) error {
	t.mustBeMade()
	if !p.SetsLimit() {
		return errNoLimit
	}
	return t.phase.SetPolicy(p)
}

// errPhased is the error for a change of the initial phase of a tracker that has none, such as an HTTP listener's.
var errPhased = errors.New("idle: no connection of this tracker has its initial policy, because all are in other phases; use Phase.SetPolicy of those, or SetTimeouts of an HTTP listener")

// SetPolicy replaces the policy of the phase, also for the connections that are in it. Any
// goroutine may call it.
//
// No connection is ended by the old policy once SetPolicy has returned, except for one that an event loop is ending
// at that moment. A longer limit therefore holds at once. Callbacks that were decided upon before may still follow. A
// shorter limit counts from the same event as before, such as the last activity. A ping that waits for its answer
// goes on waiting; if the new Heartbeat is longer, all of it counts from the last input. The tracker checks all
// connections in the background, a million of them in less than a second.
//
// The old policy may not have recorded what these limits need: the minimum rates, a Heartbeat that was off or of the
// other form, and IdleTimeout if ExplicitUse was not set. They count from the call. If a minimum rate looks missed by
// the new policy and waits haven't been measured (see [Policy]), its Grace starts over. What bytes have paid in
// advance under an earlier minimum rate may still count.
//
// If policy has no Name, the phase keeps its name. SetPolicy fails with [ErrClosed] if the tracker is closed. It also
// fails if policy is not valid for [Tracker.Phase], and if it has an active Heartbeat but connections were tracked
// with Hooks that have no Ping, or if the phase is [Tracker.Initial] and policy conflicts with the [Capacity] that is
// set. Then nothing changes.
func (p *Phase) SetPolicy(policy Policy) error {
	if p == nil {
		panic("idle: SetPolicy of a nil Phase; did Tracker.Phase return an error?")
	}
	t := p.tracker
	if t.phased && p == t.phase {
		return errPhased
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	policy.Name = cmp.Or(policy.Name, p.Policy().Name)
	err := policy.validate(t.opts.Tick)
	switch beat := policy.Heartbeat; {
	case err != nil:
	case t.closed:
		err = ErrClosed
	case beat.Interval > 0 && !beat.Passive && t.pingless.Load():
		err = fmt.Errorf("idle: the policy has an active Heartbeat (every %v), but connections are tracked that cannot be pinged; set Ping from the beginning, or use the Passive form", beat.Interval)
	case p == t.phase:
		err = t.room.limit.Load().suits(t, policy)
	}
	if err != nil {
		return err
	}
	p.now.Store(t.limitsOf(policy, p.limits()))
	t.begin(&t.renewals)
	t.awaitEnds()
	return nil
}

// renewed visits some connections after a policy was replaced, and brings forward the deadlines that are earlier now.
func renewed(s *Shard, some []*Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := clock.Moment{Now: s.clock.Recent()}
	for _, c := range some {
		s.bringForward(c, m)
	}
}
