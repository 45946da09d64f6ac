package idle

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

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

// String returns what the reason is called in logs and metrics: "idle",
// "read", "write", "max age", "heartbeat", "min read rate", "min write rate", "phase", "read total".
func (r Reason) String() string {
	names := [numReasons]string{"none", "idle", "read", "write", "max age", "heartbeat", "min read rate", "min write rate", "phase", "read total"}
	if r < numReasons {
		return names[r]
	}
	return "reason " + strconv.Itoa(int(r))
}

// TimeoutError says which limit a connection passed. It is a net.Error that
// matches os.ErrDeadlineExceeded, so that servers take it for what
// SetReadDeadline would have given them.
//
// A library between a connection and its user may replace the error by its own, as
// gorilla/websocket v1.5.1 does with every net.Error. Then errors.As finds no
// TimeoutError in it. Ask the connection for it (idlenet.Conn.Timeout), or use
// OnTimeout and OnEnd, which get the original.
type TimeoutError struct {
	Reason  Reason
	Phase   string        // Policy.Name of the phase that it was in
	Limit   time.Duration // as configured
	Elapsed time.Duration // how long it had been: at least Limit, and within two ticks of the truth

	late time.Duration // of Elapsed, what is past the deadline
}

// Error tells phase, reason, limit and elapsed time, and contains "i/o timeout", the
// words by which servers know a timeout that they need not log.
func (e *TimeoutError) Error() string {
	where := ""
	if e.Phase != "" {
		where = e.Phase + ": "
	}
	return fmt.Sprintf("i/o timeout: %s%s limit of %v passed after %v", where, e.Reason, e.Limit, e.Elapsed)
}

// Timeout is true.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary is false, unlike for the timeouts of package net: the connection has
// ended, and no later deadline revives it.
func (e *TimeoutError) Temporary() bool { return false }

// Is reports whether target is os.ErrDeadlineExceeded.
func (e *TimeoutError) Is(target error) bool { return target == os.ErrDeadlineExceeded }
