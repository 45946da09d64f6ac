package idle

// Reason says why a connection has ended: it names the limit that it has passed, or
// the operation that has ended it. The zero Reason means none.
type Reason uint8

// The reasons. First there is one for each limit of a [Policy].
const (
	_ Reason = iota
	ReasonIdle
	ReasonRead
	ReasonWrite
	ReasonMaxAge
	ReasonHeartbeat
	ReasonMinReadRate
	ReasonMinWriteRate
	ReasonPhase
	ReasonReadTotal
	numLimits
)

// These are the reasons of operations.
const (
	ReasonDrain Reason = numLimits + iota // [Tracker.Drain]
	ReasonShed                            // [Tracker.Shed] and [Conn.End]
	ReasonEvict                           // [Capacity]
	numReasons
)

var others = [...]string{"drain", "shed", "evict"}
