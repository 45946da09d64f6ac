// Package httpconn takes the connections of an HTTP server through the phases of
// their requests. Each phase has its own limits. The package learns what a server
// does from events, which the adapters derive from the server's hooks.
package httpconn

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// A Phase is a stage in the life of a connection.
type Phase uint8

const (
	Handshake Phase = iota // from the accept to the first byte of a request
	Header                 // from there to the end of the header
	Request                // from there to the end of the response
	KeepAlive              // between requests
	Streams                // HTTP/2, while streams are open
	Hijacked

	stream // a request of HTTP/2

	numPhases
)

// String returns the name of the phase in errors and counters.
func (p Phase) String() string {
	return [numPhases]string{
		Handshake: "handshake", Header: "request header", Request: "request", KeepAlive: "keep-alive", Streams: "streams",
		Hijacked: "hijacked", stream: "request stream",
	}[p]
}

// A setting is a field of Timeouts: a duration or a rate, and the limits that it
// sets.
type setting struct {
	name      string
	duration  *time.Duration
	rate      *idle.Rate
	byDefault time.Duration
	limits    []limit
}

// A limit is one field of the policy of a phase, identified by the reason for
// which it ends connections.
type limit struct {
	phase  Phase
	reason idle.Reason
}

// Some defaults.
const (
	defaultBytesPerSecond = 240
	defaultGrace          = 5 * time.Second
	defaultHandshake      = 10 * time.Second
)

// settings lists all settings of t.
func settings(t *httplimits.Timeouts) []setting {
	return []setting{
		{"HandshakeTimeout", &t.HandshakeTimeout, nil, defaultHandshake, []limit{{Handshake, idle.ReasonPhase}}},
		{"HeaderTimeout", &t.HeaderTimeout, nil, 10 * time.Second, []limit{{Header, idle.ReasonPhase}}},
		{"BodyTimeout", &t.BodyTimeout, nil, 30 * time.Second, bodyLimits(idle.ReasonRead)},
		{"BodyRate", nil, &t.BodyRate, defaultGrace, bodyLimits(idle.ReasonMinReadRate)},
		{"HandlerTimeout", &t.HandlerTimeout, nil, 0, []limit{{Request, idle.ReasonPhase}, {stream, idle.ReasonPhase}}},
		{"WriteTimeout", &t.WriteTimeout, nil, 30 * time.Second, writeLimits(idle.ReasonWrite)},
		{"WriteRate", nil, &t.WriteRate, defaultGrace, writeLimits(idle.ReasonMinWriteRate)},
		{"KeepAliveTimeout", &t.KeepAliveTimeout, nil, 75 * time.Second, []limit{{KeepAlive, idle.ReasonPhase}}},
		{"StreamTimeout", &t.StreamTimeout, nil, 5 * time.Minute, []limit{{Streams, idle.ReasonIdle}}},
		{"MaxAge", &t.MaxAge, nil, 0, ageLimits()},
		{"MaxAgeJitter", &t.MaxAgeJitter, nil, 0, nil},
		{"MaxAgeGrace", &t.MaxAgeGrace, nil, 30 * time.Second, nil},
	}
}

// ageLimits returns the limits on a connection's age.
func ageLimits() (all []limit) {
	for p := range numPhases {
		if p != Hijacked && p != stream {
			all = append(all, limit{p, idle.ReasonMaxAge})
		}
	}
	return all
}

// bodyLimits returns the limits by reason r that a setting for bodies sets.
func bodyLimits(r idle.Reason) []limit {
	return []limit{{Request, r}, {stream, r}}
}

// writeLimits returns the limits by reason r that a setting for responses sets.
func writeLimits(r idle.Reason) []limit {
	return []limit{{Request, r}, {Streams, r}, {stream, r}}
}

// complete replaces 0 by the default and Off by 0 in all settings of t. Errors say what 0 stands for: zero, or
// the default if that's empty.
func complete(t *httplimits.Timeouts, zero string) error {
	for _, s := range settings(t) {
		if err := s.complete(zero); err != nil {
			return err
		}
	}
	return nil
}

func (s *setting) complete(zero string) error {
	if s.rate != nil {
		return s.completeRate(zero)
	}
	switch d := s.duration; {
	case *d == 0:
		*d = s.byDefault
	case *d == httplimits.Off:
		*d = 0
	case *d < 0:
		return fmt.Errorf("%s is %v; use 0 for %s, or Off to disable it", s.name, *d, orDefault(zero, s.byDefault))
	}
	return nil
}

func (s *setting) completeRate(zero string) error {
	switch r := s.rate; {
	case *r == idle.Rate{}:
		*r = idle.Rate{BytesPerSecond: defaultBytesPerSecond, Grace: s.byDefault}
	case r.BytesPerSecond == httplimits.Off:
		*r = idle.Rate{}
	case r.BytesPerSecond < 0:
		return fmt.Errorf("%s.BytesPerSecond is %d; use 0 for %s, or Off to disable it", s.name, r.BytesPerSecond, orDefault(zero, defaultBytesPerSecond))
	case r.BytesPerSecond == 0:
		return fmt.Errorf("%s.BytesPerSecond is 0, but its Grace is %v; set both, or none for the default", s.name, r.Grace)
	case r.Grace < 0:
		return fmt.Errorf("%s.Grace is %v; use 0 for the default of %v", s.name, r.Grace, s.byDefault)
	case r.Grace == 0:
		r.Grace = s.byDefault
	}
	return nil
}

func orDefault(zero string, byDefault any) string {
	return cmp.Or(zero, fmt.Sprint("the default of ", byDefault))
}

// fieldOf returns the field of p for the limit: a duration or a rate. The other
// result is nil.
func (l limit) fieldOf(p *idle.Policy) (*time.Duration, *idle.Rate) {
	switch l.reason {
	case idle.ReasonIdle:
		return &p.IdleTimeout, nil
	case idle.ReasonRead:
		return &p.ReadTimeout, nil
	case idle.ReasonPhase:
		return &p.PhaseTimeout, nil
	case idle.ReasonWrite:
		return &p.WriteTimeout, nil
	case idle.ReasonMaxAge:
		return &p.MaxAge, nil
	case idle.ReasonMinReadRate:
		return nil, &p.MinReadRate
	case idle.ReasonMinWriteRate:
		return nil, &p.MinWriteRate
	}
	panic("httpconn: no setting of Timeouts sets the limit " + l.reason.String())
}

// A limitKey identifies a limit as errors do: by the name of the phase and the
// reason.
type limitKey struct {
	phase  string
	reason idle.Reason
}

// assignLimits returns the policy of each phase for timeouts that are complete, and the name of the setting behind
// each limit. Limits of the user's own policies, such as Hijacked, aren't among those.
func assignLimits(t *httplimits.Timeouts) (all [numPhases]idle.Policy, settingOf map[limitKey]string) {
	settingOf = map[limitKey]string{}
	for _, s := range settings(t) {
		for _, l := range s.limits {
			duration, rate := l.fieldOf(&all[l.phase])
			if rate != nil {
				*rate = *s.rate
			} else {
				*duration = *s.duration
			}
			settingOf[limitKey{l.phase.String(), l.reason}] = s.name
		}
	}
	for p := range all {
		if all[p].MaxAge > 0 {
			all[p].MaxAgeJitter, all[p].MaxAgeGrace = t.MaxAgeJitter, t.MaxAgeGrace
		}
	}
	all[KeepAlive].ExplicitUse = true // what arrives may be noise: a PING, a KeyUpdate of TLS
	all[Hijacked] = t.Hijacked
	for p := range numPhases {
		all[p].Name = cmp.Or(all[p].Name, p.String())
	}
	for _, p := range []Phase{Header, Request, Streams} {
		all[p].NoInterrupt = true
	}
	return all, settingOf
}

// maxTicks is how many ticks a limit may have; see [idle.Policy].
const maxTicks = 1 << 28

// checkDurations returns an error if a setting of t, which is complete, is too short or too long for the tick. It
// names the setting. An error about the policies made from it could name only their fields. It also checks that a jitter has
// something to make longer.
func checkDurations(t *httplimits.Timeouts, tick time.Duration) error {
	for _, s := range settings(t) {
		name, d := s.name, time.Duration(0)
		if s.rate != nil {
			name, d = s.name+".Grace", s.rate.Grace
		} else {
			d = *s.duration
		}
		if 0 < d && d < tick {
			return fmt.Errorf("%s is %v, shorter than the tick of %v; use a longer timeout (with a unit, like 60*time.Second) or a shorter Idle.Tick when the listener is made", name, d, tick)
		}
		if d > maxTicks*tick {
			return fmt.Errorf("%s is %v; with a tick of %v the longest is %v; use Off to disable it, or a longer Idle.Tick when the listener is made", name, d, tick, maxTicks*tick)
		}
	}
	if t.MaxAge == 0 && t.MaxAgeJitter > 0 {
		return fmt.Errorf("MaxAgeJitter is %v, but MaxAge is off; set MaxAge too", t.MaxAgeJitter)
	}
	return nil
}

// named returns err, an error of package idle about a policy or options, with the names that the user of this
// package knows. of is what the fields of the policy are fields of: "" or a name and a dot.
func named(of string, err error) error {
	if errors.Is(err, idle.ErrClosed) {
		return fmt.Errorf("the timeouts have ended: %w", err)
	}
	text := strings.TrimPrefix(err.Error(), "idle: ")
	return errors.New(of + strings.ReplaceAll(text, "Options.", "Idle."))
}
