package idle

import "time"

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
// A limit that passes while another one is averted may take a tick more. If two are
// passed in the same tick, the one whose [Reason] comes first is named.
//
// Three limits are of time in all, whatever moves. Which to use:
//
//	for                 use           counts                     begins anew
//	a handshake         PhaseTimeout  all time                   with each phase
//	a header, a body    ReadTotal     while bytes are awaited    with each phase
//	a connection        MaxAge        all time                   never
//
// A server that takes its time between two reads of a header uses up PhaseTimeout,
// and not ReadTotal.
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
	// entered.
	PhaseTimeout time.Duration

	// MaxAge is how long a connection may live since tracking began, traffic
	// or not. MaxAgeJitter lengthens it by up to that much, differently for
	// each connection, so that connections made together do not end together.
	// If there is a MaxAgeGrace, the owner is then asked to finish ([Hooks].OnDrain),
	// and the connection may live for that much more, so that a last exchange
	// can.
	MaxAge       time.Duration
	MaxAgeJitter time.Duration
	MaxAgeGrace  time.Duration

	Heartbeat Heartbeat

	// MinReadRate and MinWriteRate end connections whose bytes trickle. A rate
	// is averaged since the phase began, over the time in which bytes were
	// awaited, or waited to go out. Such waits count exactly, even those that are
	// shorter than a tick. Where the system tells (TCP on Linux), what counts is
	// what the peer has taken, not what waits in the kernel for it to.
	MinReadRate  Rate
	MinWriteRate Rate
}

// Heartbeat tells a silent peer from a dead one. It is off when Interval is
// zero.
//
// When nothing has arrived for Interval, the owner is asked to ping
// ([Hooks].Ping). Nothing within Timeout of a ping is a miss, and the owner is
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

func (h *Heartbeat) misses() int { return max(h.Misses, 1) }

// limit is how long a silent connection lives under h.
func (h *Heartbeat) limit() time.Duration {
	if h.Passive {
		return time.Duration(h.misses())*h.Interval + h.Timeout
	}
	return h.Interval + time.Duration(h.misses())*h.Timeout
}
