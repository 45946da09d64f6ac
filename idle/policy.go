package idle

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
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
//   - ReadTotal and the rates, which add up waits: one tick more, and ReadTotal yet
//     another one if input arrives just before it has passed;
//   - MaxAge with a MaxAgeGrace: the lateness of both together;
//   - an active Heartbeat: the lateness of its Interval, and of its Timeout once for
//     each of the Misses.
//
// If one limit turns out not to have passed when it's checked, a timeout by another one may come a
// tick later than this list says. If two pass in the same tick, the error names the one whose
// [Reason] comes first.
//
// Three limits are on a total time, no matter whether bytes move. This is how they differ:
//
//	for                 use           counts                     starts over
//	a handshake         PhaseTimeout  all time                   with each phase
//	a header, a body    ReadTotal     while bytes are awaited    with each phase
//	a connection        MaxAge        all time                   never
//
// For example, time in which a server is busy between two reads of a header
// counts for PhaseTimeout but not for ReadTotal.
//
// [New] and [Tracker.Phase] copy the Policy that they are given.
type Policy struct {
	// Name is the name of the phase with this policy, for errors and counts. It may be empty, and
	// may have at most 128 bytes.
	Name string

	// NoInterrupt says that connections in this phase are busy, such as with a request. No
	// limit depends on it. [Tracker.Drain] doesn't end a busy connection
	// until it enters another phase, though it calls OnDrain, and an eviction spares it.
	NoInterrupt bool

	// IdleTimeout limits the time without use of the connection in either direction: without
	// any byte except the pings of an active Heartbeat and their answers.
	IdleTimeout time.Duration

	// ReadTimeout limits how long the server waits for bytes without any arriving.
	ReadTimeout time.Duration

	// ReadTotal limits the total time in which the server waits for bytes, since tracking began
	// or this policy was last entered. Bytes that arrive don't extend it. It's for input that has
	// to be complete by some time, such as the header of a request. Waits are measured exactly,
	// even those shorter than a tick. ReadTotal can't be combined with MinReadRate, with which
	// each byte gives the peer more time.
	ReadTotal time.Duration

	// WriteTimeout limits how long bytes wait to be sent without any being sent.
	WriteTimeout time.Duration

	// PhaseTimeout limits the time under this policy, since tracking began or the
	// policy was last entered. Only an OnTimeout that keeps the connection extends it.
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
	// for bytes, or bytes waited to be sent. Waits are measured exactly, even those shorter than a tick. MinWriteRate counts the
	// bytes that the peer acknowledged during those waits, if the system reports their number
	// (TCP on Linux), and otherwise the bytes that the kernel accepted.
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
// In the passive form the owner doesn't ping. The peer must send a beat ([Conn.Beat]) every
// Interval; other bytes don't count. An interval without a beat is a miss. The connection times
// out after Misses intervals and a Timeout. MQTT allows one and a half times the keepalive k:
// that is Interval k and Timeout k/2.
//
// So a silent peer is timed out after Interval + Misses*Timeout in the active form, and after
// Misses*Interval + Timeout in the passive one.
//
// The keep-alive of TCP, which package net turns on, finds hosts that have vanished, but no
// processes that hang. A Heartbeat finds both, so it makes that superfluous.
//
// A ping and its answer show that the peer is alive, but they don't count as use of the
// connection. IdleTimeout, evictions, the order of a [Tracker.Drain], [Conn.Idle] and
// [Info] go by use. An active Heartbeat and ReadTimeout go by any byte that arrives,
// WriteTimeout by any that is sent, and a passive Heartbeat by beats only.
//
// A tracker doesn't know the protocol. It assumes that the first output reported while
// Hooks.Ping runs is the ping, and that the first input after it is the answer. If a message
// crosses the ping, the message is mistaken for the answer. The real answer, which comes a
// round trip later, then counts as use. If a ping or an answer is reported in several parts, all but the first
// count as use. A beat counts as use if an adapter reports the read in which it came. In
// HTTP/2, a connection is in use while a stream is open. PING, SETTINGS and other frames
// between streams aren't use. If a peer may leave a ping unanswered because it has just sent
// something else, set CountsAsUse. Otherwise that message may be taken for the answer, and
// doesn't restart IdleTimeout.
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

	// CountsAsUse makes pings and their answers count as use of the connection. IdleTimeout
	// then restarts with each of them. It is only for the active form.
	CountsAsUse bool
}

// Rate is a minimum rate. It is off when BytesPerSecond is zero. Grace is the time for a slow
// start, and must not be zero. A sender that sends nothing is timed out after Grace, and each
// byte that it sends adds 1/BytesPerSecond seconds. So a fast sender may pause later, but for at
// most a minute and Grace. The highest BytesPerSecond depends on the tick: with a tick of 10 ms
// it is about 4 GB/s.
type Rate struct {
	BytesPerSecond int
	Grace          time.Duration
}

// SetsLimit reports whether p sets a limit. Name and NoInterrupt aren't limits.
func (p Policy) SetsLimit() bool { return p != Policy{Name: p.Name, NoInterrupt: p.NoInterrupt} }

func (h *Heartbeat) misses() int { return max(h.Misses, 1) }

// limit returns after how long a silent connection times out under h.
func (h *Heartbeat) limit() time.Duration {
	if h.Passive {
		return time.Duration(h.misses())*h.Interval + h.Timeout
	}
	return h.Interval + time.Duration(h.misses())*h.Timeout
}

// fields yields the fields of a policy that have to be a number of ticks, or 0.
func fields(yield func(field) bool) {
	for r := ReasonIdle; r < numLimits; r++ {
		own := limits[r].fields
		if own == nil {
			own = []field{{limits[r].setting, limits[r].allowed}}
		}
		for _, f := range own {
			if !yield(f) {
				return
			}
		}
	}
}

// errNoLimit is the error for a tracker whose policy sets no limit.
func errNoLimit() error {
	var settings []string
	for r := ReasonIdle; r < numLimits; r++ {
		settings = append(settings, limits[r].setting)
	}
	return errors.New("idle: the policy sets no limit; set at least one of " + strings.Join(settings, ", "))
}

const (
	maxMisses = 100
	mostLabel = 128 // bytes of a name, a label or a cause
)

// validate returns an error if p is invalid with the given tick.
func (p *Policy) validate(tick time.Duration) error {
	if len(p.Name) > mostLabel {
		return fmt.Errorf("idle: Name of a policy has %d bytes (%.20q...); use at most %d", len(p.Name), p.Name, mostLabel)
	}
	longest := clock.MaxTicks * tick
	for f := range fields {
		switch value := f.value(p); {
		case value < 0:
			return fmt.Errorf("idle: %s is %v; use 0 to disable it", f.name, value)
		case value > 0 && value < tick:
			return fmt.Errorf("idle: %s is %v, shorter than the tick of %v; use a longer timeout (with a unit, like 60*time.Second) or a shorter Options.Tick", f.name, value, tick)
		case value > longest:
			return fmt.Errorf("idle: %s is %v; with a tick of %v the longest is %v; use a longer Options.Tick, or 0 to disable it", f.name, value, tick, longest)
		}
	}
	if age := p.MaxAge + p.MaxAgeJitter + p.MaxAgeGrace; age > longest {
		return fmt.Errorf("idle: MaxAge with jitter and grace is %v; with a tick of %v the longest is %v; use a longer Options.Tick, or less of each", age, tick, longest)
	}
	if p.MaxAge == 0 && (p.MaxAgeJitter > 0 || p.MaxAgeGrace > 0) {
		return fmt.Errorf("idle: MaxAge is 0, but MaxAgeJitter is %v and MaxAgeGrace is %v; set MaxAge too", p.MaxAgeJitter, p.MaxAgeGrace)
	}
	if p.ReadTotal > 0 && p.MinReadRate.BytesPerSecond > 0 {
		return fmt.Errorf("idle: ReadTotal is %v and MinReadRate is %d bytes per second; set only one of them", p.ReadTotal, p.MinReadRate.BytesPerSecond)
	}
	return cmp.Or(
		p.Heartbeat.validate(longest),
		p.MinReadRate.validate("MinReadRate", tick),
		p.MinWriteRate.validate("MinWriteRate", tick),
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
	case h.Passive && h.CountsAsUse:
		return errors.New("idle: Heartbeat.CountsAsUse is set, but Heartbeat is Passive, so there are no pings")
	case h.Jitter > h.Interval:
		return fmt.Errorf("idle: Heartbeat.Jitter is %v; it must be at most the Interval of %v", h.Jitter, h.Interval)
	case max(h.Interval, h.Timeout) > longest/time.Duration(h.misses()+1):
		return fmt.Errorf("idle: Heartbeat.Misses is %d, with an Interval of %v and a Timeout of %v; all together must be no longer than %v", h.Misses, h.Interval, h.Timeout, longest)
	}
	return nil
}

func (r *Rate) validate(name string, tick time.Duration) error {
	switch most := maxRate(tick); {
	case int64(r.BytesPerSecond) > most:
		return fmt.Errorf("idle: %s.BytesPerSecond is %d; with a tick of %v the most is %d; use a shorter Options.Tick, or 0 to disable it", name, r.BytesPerSecond, tick, most)
	case r.BytesPerSecond < 0:
		return fmt.Errorf("idle: %s.BytesPerSecond is %d; use 0 to disable it", name, r.BytesPerSecond)
	case r.BytesPerSecond == 0 && r.Grace != 0:
		return fmt.Errorf("idle: %s.BytesPerSecond is 0, but its Grace is %v; set both or none", name, r.Grace)
	case r.BytesPerSecond > 0 && r.Grace == 0:
		return fmt.Errorf("idle: %s.Grace is 0; set it to how long a slow start may take", name)
	}
	return nil
}

// maxRate returns the highest rate, in bytes per second, for which the time that a byte adds is
// exact to a hundredth. That time is a whole number of 2⁻³² ticks, rounded up. With a tick of 10
// ms that is 4.3 GB/s.
func maxRate(tick time.Duration) int64 {
	const fine = 100 // the least price of a byte, in 2⁻³² ticks
	return int64(uint64(time.Second) << 32 / uint64(tick) / fine)
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
