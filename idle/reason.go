package idle

// Reason is the limit that a connection passed. The zero Reason is none.
type Reason uint8

// The reasons, one for each limit of a [Policy].
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
	numReasons
)
