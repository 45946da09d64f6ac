package idle

// Reason is the limit that a connection passed. The zero Reason is none.
type Reason uint8

// The reasons, each named after the field of [Policy] that sets its limit.
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
