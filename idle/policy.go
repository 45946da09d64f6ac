package idle

import (
	"cmp"
	"fmt"
	"time"
)

// Policy says how long a connection may do what. Every field is off when zero;
// a negative one is refused.
//
// Durations are rounded up to whole ticks. No limit is enforced before it has passed,
// and each at most so much later:
//
//   - a limit of whole ticks, 1⅛ ticks; any other, 2⅛;
//   - ReadTotal and the rates, which add up waits, one tick more than that;
//   - MaxAge and MaxAgeGrace, which follow each other, the sum of both;
//   - an active Heartbeat, as much for its Interval and again for each of its Misses.
//
// A limit that passes while another one is averted may take a tick more.
//
// A Policy is made ready for use by [New] or [Tracker.Phase], which copy it.
type Policy struct {
	// Name is what the phase under this policy is called in errors. It may be
	// empty.
	Name string

	// IdleTimeout is how long no byte may move, in either direction. A ping
	// that is written moves one: to find dead peers, count on Heartbeat.
	IdleTimeout time.Duration

	// ReadTimeout is how long no byte may arrive while bytes are awaited.
	ReadTimeout time.Duration

	// ReadTotal is how long bytes may be awaited in all, since tracking began or
	// the policy was last entered, whatever arrives: it is for what has to be
	// complete by then, such as the header of a request. Waits count exactly,
	// even those that are shorter than a tick. It cannot be combined with
	// MinReadRate, which is this with bytes that buy time.
	ReadTotal time.Duration

	// WriteTimeout is how long no byte may go out while bytes wait to.
	WriteTimeout time.Duration

	// PhaseTimeout is how long a connection may be under this policy, whatever
	// moves and whoever is waited for: since tracking began, or since it was last
	// entered. It cannot be combined with a Heartbeat.
	PhaseTimeout time.Duration

	// MaxAge is how long a connection may live since tracking began, traffic
	// or not. MaxAgeJitter lengthens it by up to that much, differently for
	// each connection, so that connections made together do not end together.
	// If there is a MaxAgeGrace, the owner is then asked to finish ([Drainer]),
	// and the connection may live for that much more, so that a last exchange
	// can.
	MaxAge       time.Duration
	MaxAgeJitter time.Duration
	MaxAgeGrace  time.Duration

	Heartbeat Heartbeat

	// MinReadRate and MinWriteRate end connections whose bytes trickle. A rate
	// is averaged since the phase began, over the time in which bytes were
	// awaited, or waited to go out. Such waits count exactly, even those that are
	// shorter than a tick, unless an owner reports their beginnings only (see
	// [Conn.BeginRead]). Where the system tells (TCP on Linux), what counts is
	// what the peer has taken, not what waits in the kernel for it to.
	MinReadRate  Rate
	MinWriteRate Rate
}

// Heartbeat tells a silent peer from a dead one. It is off when Interval is
// zero.
//
// When nothing has arrived for Interval, the owner is asked to ping
// ([Pinger]). Nothing within Timeout of a ping is a miss, and the owner is
// asked again; after Misses in a row the connection is stale. Any byte that
// arrives clears the misses.
//
// In the Passive form nobody pings: the peer has to beat ([Conn.Beat]) every
// Interval, and bytes that are not a beat do not count. An interval without a
// beat is a miss, and the last one has Timeout more: the connection is stale
// after Misses intervals and a Timeout. MQTT's rule of one and a half times
// the keepalive is Interval k, Timeout k/2.
type Heartbeat struct {
	Interval time.Duration
	Timeout  time.Duration // active: required; passive: may be zero
	Misses   int           // misses in a row that make it stale; 0 means 1; at most 100
	Passive  bool
}

// Rate is a minimum speed, off when BytesPerSecond is zero. Grace is how long
// the speed is not looked at, so that a slow start is no offence; it must not
// be zero. A sender that has sent nothing at all is therefore stale after
// Grace, and each byte buys it 1/BytesPerSecond seconds. The highest rate depends
// on the tick; with ticks of 10 ms it is about 4 GB/s.
type Rate struct {
	BytesPerSecond int
	Grace          time.Duration
}

// maxTicks is the longest timeout in ticks. Stamps have 31 or 32 bits, and are
// refreshed each time a connection is looked at, which is at least this often.
const maxTicks = 1 << 28

const maxMisses = 100

// duration is a named field of a policy, for validation.
type duration struct {
	name  string
	value time.Duration
}

func (p *Policy) durations() []duration {
	return []duration{
		{"IdleTimeout", p.IdleTimeout},
		{"ReadTimeout", p.ReadTimeout},
		{"ReadTotal", p.ReadTotal},
		{"WriteTimeout", p.WriteTimeout},
		{"PhaseTimeout", p.PhaseTimeout},
		{"MaxAge", p.MaxAge},
		{"MaxAgeJitter", p.MaxAgeJitter},
		{"MaxAgeGrace", p.MaxAgeGrace},
		{"Heartbeat.Interval", p.Heartbeat.Interval},
		{"Heartbeat.Timeout", p.Heartbeat.Timeout},
		{"MinReadRate.Grace", p.MinReadRate.Grace},
		{"MinWriteRate.Grace", p.MinWriteRate.Grace},
	}
}

// validate reports what is wrong with p at the given tick, nil if nothing is.
func (p *Policy) validate(tick time.Duration) error {
	longest := maxTicks * tick
	for _, d := range p.durations() {
		switch {
		case d.value < 0:
			return fmt.Errorf("idle: %s is %v; use 0 to disable it", d.name, d.value)
		case d.value > 0 && d.value < tick:
			return fmt.Errorf("idle: %s is %v, shorter than the tick of %v; use a longer timeout (with a unit, like 60*time.Second) or a shorter Options.Tick", d.name, d.value, tick)
		case d.value > longest:
			return fmt.Errorf("idle: %s is %v; with a tick of %v the longest is %v; use a longer Options.Tick, or 0 to disable it", d.name, d.value, tick, longest)
		}
	}
	if age := p.MaxAge + p.MaxAgeJitter + p.MaxAgeGrace; age > longest {
		return fmt.Errorf("idle: MaxAge with jitter and grace is %v; with a tick of %v the longest is %v; use a longer Options.Tick, or less of each", age, tick, longest)
	}
	if p.MaxAge == 0 && (p.MaxAgeJitter > 0 || p.MaxAgeGrace > 0) {
		return fmt.Errorf("idle: MaxAge is 0, but MaxAgeJitter is %v and MaxAgeGrace is %v; set MaxAge too", p.MaxAgeJitter, p.MaxAgeGrace)
	}
	if p.PhaseTimeout > 0 && p.Heartbeat.Interval > 0 {
		return fmt.Errorf("idle: PhaseTimeout is %v and Heartbeat.Interval is %v; a policy can have one of the two", p.PhaseTimeout, p.Heartbeat.Interval)
	}
	if p.ReadTotal > 0 && p.MinReadRate.BytesPerSecond > 0 {
		return fmt.Errorf("idle: ReadTotal is %v and MinReadRate is %d bytes a second; a policy can have one of the two", p.ReadTotal, p.MinReadRate.BytesPerSecond)
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
		return fmt.Errorf("idle: Heartbeat.Timeout is 0; say how long the answer to a ping may take")
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
		return fmt.Errorf("idle: %s.Grace is 0; say for how long a slow start is allowed", name)
	}
	return nil
}

// maxRate returns the highest rate in bytes a second of which the price of a byte,
// which is rounded up, is right to a hundredth: 4.3 GB/s with ticks of 10 ms.
func maxRate(tick time.Duration) int64 {
	const fine = 100 // parts that the price of a byte has at least, of 2³² to a tick
	return int64(uint64(time.Second) << 32 / uint64(tick) / fine)
}

func (h *Heartbeat) misses() int { return max(h.Misses, 1) }

// limit is how long a silent connection lives under h.
func (h *Heartbeat) limit() time.Duration {
	if h.Passive {
		return time.Duration(h.misses())*h.Interval + h.Timeout
	}
	return h.Interval + time.Duration(h.misses())*h.Timeout
}
