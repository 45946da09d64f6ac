package idle

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"
)

// Reason says why a connection has ended: it names the limit that has passed, or what else
// ended the connection. The zero Reason means none. Another version of this package may have
// other values; store what String returns.
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
	numLimits
)

// These are the reasons of connections that passed no limit.
const (
	ReasonDrain Reason = numLimits + iota // [Tracker.Drain]
	ReasonShed                            // [Conn.End], [Info.End] and [Info.EndIfIdle]
	ReasonEvict                           // [Capacity]
	numReasons
)

// ErrClosed is returned when a tracker is used that is closed.
var ErrClosed = errors.New("idle: the tracker is closed; make a new one with New")

// TimeoutError says why a connection was ended: which limit passed, or what else ended it.
// It's a net.Error and matches os.ErrDeadlineExceeded, so servers treat it like the error after a
// deadline of SetReadDeadline.
//
// A library between a connection and its user may replace the error with its own, as
// gorilla/websocket v1.5.1 does with every net.Error. Then errors.As finds no TimeoutError. Ask
// the connection for it (idlenet.Conn.Timeout), or use OnTimeout and OnEnd, which get the
// original.
type TimeoutError struct {
	Reason  Reason
	Setting string        // the field of Policy that sets the limit, or an adapter's name for it; empty if none has passed
	Phase   string        // Policy.Name of the connection's phase
	Limit   time.Duration // as configured, for a rate its Grace, for a Heartbeat all of it; 0 if none has passed
	Rate    Rate          // as configured, if the limit is a minimum rate

	// Elapsed is the time that has passed, exact to two ticks. For a limit, it's at least Limit
	// (less Heartbeat.Jitter). If no limit has passed, it's the time since the last use of the
	// connection, and a farewell of OnDrain counts as use.
	Elapsed time.Duration
	Cause   string // the cause passed to End or EndIfIdle
}

// Error returns the phase, setting, limit or rate, and elapsed time. The text contains "i/o
// timeout", which tells servers that they needn't log it:
//
//	i/o timeout: request header: HeaderTimeout of 10s passed after 10.01s
//	i/o timeout: request: BodyRate of 50000 B/s not reached after 5.02s
//	i/o timeout: chat: ended by shed (too old a version), idle for 3.2s
func (e *TimeoutError) Error() string {
	where, setting := "", cmp.Or(e.Setting, e.Reason.setting(), e.Reason.String())
	if e.Phase != "" {
		where = e.Phase + ": "
	}
	if e.Reason >= numLimits {
		cause := e.Cause
		if cause != "" {
			cause = " (" + cause + ")"
		}
		return fmt.Sprintf("i/o timeout: %sended by %v%s, idle for %v", where, e.Reason, cause, e.Elapsed)
	}
	if e.Rate.BytesPerSecond > 0 {
		return fmt.Sprintf("i/o timeout: %s%s of %d B/s not reached after %v", where, setting, e.Rate.BytesPerSecond, e.Elapsed)
	}
	return fmt.Sprintf("i/o timeout: %s%s of %v passed after %v", where, setting, e.Limit, e.Elapsed)
}

// Timeout returns true.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary returns false: the connection has ended, and no later deadline
// revives it. The timeouts of package net return true. See
// docs/decisions/a-timeout-is-not-temporary.md.
func (e *TimeoutError) Temporary() bool { return false }

// Is reports whether target is os.ErrDeadlineExceeded.
func (e *TimeoutError) Is(target error) bool { return target == os.ErrDeadlineExceeded }
