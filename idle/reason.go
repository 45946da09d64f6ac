package idle

// Reason identifies the limit that a connection has passed. The zero Reason means
// none.
type Reason uint8

// The reasons. There is one for each limit of a [Policy].
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
