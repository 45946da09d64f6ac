package main

import (
	"fmt"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A verdict is how a client's life ended.
type verdict uint8

const (
	left     verdict = iota // by itself, as it was to
	closed                  // by the server, as it was to
	draw                    // by either, as the client was too late: nobody's fault
	violated                // as it must not
)

// An outcome is a verdict with what goes with it.
type outcome struct {
	verdict
	reason  idle.Reason   // as the server has it; 0 if it has not timed the connection out
	late    time.Duration // of those closed
	precise bool          // late is known to about a tick
	at      time.Time
	fault   string
	unsure  bool // the server may have timed it out, the client does not know
}

func (o outcome) String() string {
	return fmt.Sprintf("%s (server: %v)", o.fault, o.reason)
}

func violation(reason idle.Reason, format string, args ...any) outcome {
	return outcome{verdict: violated, reason: reason, fault: fmt.Sprintf(format, args...)}
}
