package idle

import (
	"fmt"
	"os"
	"time"
)

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
	Setting string        // the setting of that limit: the field of Policy, unless an adapter has a name of its own
	Phase   string        // Policy.Name of the phase that it was in
	Limit   time.Duration // as configured
	Elapsed time.Duration // how long it had been: at least Limit, and within two ticks of the truth
}

// Error tells phase, setting, limit and elapsed time, and contains "i/o timeout", the
// words by which servers know a timeout that they need not log:
//
//	i/o timeout: request header: HeaderTimeout of 10s passed after 10.01s
func (e *TimeoutError) Error() string {
	where, setting := "", e.Setting
	if e.Phase != "" {
		where = e.Phase + ": "
	}
	if setting == "" {
		setting = e.Reason.setting()
	}
	return fmt.Sprintf("i/o timeout: %s%s of %v passed after %v", where, setting, e.Limit, e.Elapsed)
}

// Timeout is true.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary is false, unlike for the timeouts of package net: the connection has
// ended, and no later deadline revives it.
func (e *TimeoutError) Temporary() bool { return false }

// Is reports whether target is os.ErrDeadlineExceeded.
func (e *TimeoutError) Is(target error) bool { return target == os.ErrDeadlineExceeded }
