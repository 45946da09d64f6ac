package node

import (
	"fmt"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// Limits are the timeouts of all clients of a fleet. As text, they are like
// "handshake=5s idle=30s write=10s". A limit that isn't named has its default.
type Limits struct {
	Handshake time.Duration // how long a client may take to say hello
	Idle      time.Duration // how long it may be silent after that
	Write     time.Duration // how long it may leave unread what was sent
}

// DefaultLimits apply until somebody sets others.
func DefaultLimits() Limits {
	return Limits{Handshake: 5 * time.Second, Idle: 30 * time.Second, Write: 10 * time.Second}
}

const (
	minLimit = time.Second
	maxLimit = 24 * time.Hour
)

// String returns the text of l.
func (l Limits) String() string {
	return fmt.Sprintf("handshake=%v idle=%v write=%v", l.Handshake, l.Idle, l.Write)
}

// parseLimits returns the limits with the given text.
func parseLimits(text string) (Limits, error) {
	l := DefaultLimits()
	unset := map[string]*time.Duration{"handshake": &l.Handshake, "idle": &l.Idle, "write": &l.Write}
	for _, setting := range strings.Fields(text) {
		name, value, _ := strings.Cut(setting, "=")
		limit := unset[name]
		if limit == nil {
			return l, fmt.Errorf("limits: %q is unknown, or set twice; write each of handshake, idle and write once, like idle=30s", name)
		}
		d, err := time.ParseDuration(value)
		if err != nil || d < minLimit || d > maxLimit {
			return l, fmt.Errorf("limits: %s is %q; it must be a duration from %v to %v, such as 30s", name, value, minLimit, maxLimit)
		}
		*limit = d
		delete(unset, name)
	}
	return l, nil
}

// policies returns the policies of a client until it has said hello, and after that. PhaseTimeout
// also ends one that sends its hello a byte at a time, which would extend a ReadTimeout.
func (l Limits) policies() (handshake, online idle.Policy) {
	return idle.Policy{Name: "handshake", PhaseTimeout: l.Handshake}, idle.Policy{Name: "online", IdleTimeout: l.Idle, WriteTimeout: l.Write}
}
