// Package httpconn takes the connections of an HTTP server through the phases of
// their requests, each with limits of its own. What it needs to know of a server
// are events, which the adapters find in the server's hooks.
package httpconn

import (
	"cmp"
	"fmt"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// A Phase is what is going on on a connection.
type Phase uint8

const (
	Handshake Phase = iota // from the accept to the first byte of a request
	Header                 // from there to the end of the header
	Request                // from there to the end of the response
	KeepAlive              // between requests
	Streams                // HTTP/2, while streams are open
	Hijacked

	// Of connections of HTTP/2 whose frames are read.

	noStream   // none is open: the keep-alive wait, of which no frame extends the limit
	unfinished // a stream is to be reset, but first a frame of the client's has to end
	stream     // what a stream has, rather than its connection

	numPhases
	none = numPhases // one that no Read waits in
)

// String returns what the phase is called in errors and counters.
func (p Phase) String() string {
	return [numPhases]string{
		Handshake: "handshake", Header: "request header", Request: "request", KeepAlive: "keep-alive", Streams: "streams",
		Hijacked: "hijacked", noStream: "keep-alive", unfinished: "streams", stream: "request stream",
	}[p]
}

// A setting is a field of Timeouts, a duration or a rate, and where it goes: which
// limits it is of which phases.
type setting struct {
	name      string
	duration  *time.Duration
	rate      *idle.Rate
	byDefault time.Duration
	limits    []limit
}

// A limit is one of the policy of a phase, by the reason that it ends connections for.
type limit struct {
	phase  Phase
	reason idle.Reason
}

// The rate that settings have by default.
const (
	defaultBytesPerSecond = 240
	defaultGrace          = 5 * time.Second
)

// settings is the one table of what can be set in t. If several settings are the same
// limit, it is the first of them that is on.
func settings(t *httplimits.Timeouts) []setting {
	// Writing has the same limits in every phase, as a response may be on its way in
	// any of them. A frame that a reset has to wait for may be a body's, and has the
	// time of one. Without BodyRate a trickle would extend that for ever, so there is
	// a limit of the whole, which is on whenever a stream can be reset.
	return []setting{
		{"HandshakeTimeout", &t.HandshakeTimeout, nil, 10 * time.Second, []limit{{Handshake, idle.ReasonReadTotal}}},
		{"HeaderTimeout", &t.HeaderTimeout, nil, 10 * time.Second, []limit{{Header, idle.ReasonReadTotal}, {unfinished, idle.ReasonReadTotal}}},
		{"BodyTimeout", &t.BodyTimeout, nil, 30 * time.Second, append(ofBody(idle.ReasonRead), limit{unfinished, idle.ReasonReadTotal})},
		{"BodyRate", nil, &t.BodyRate, defaultGrace, ofBody(idle.ReasonMinReadRate)},
		{"HandlerTimeout", &t.HandlerTimeout, nil, 0, []limit{{Request, idle.ReasonPhase}}},
		{"WriteTimeout", &t.WriteTimeout, nil, 30 * time.Second, append(ofWriting(idle.ReasonWrite), limit{unfinished, idle.ReasonReadTotal})},
		{"WriteRate", nil, &t.WriteRate, defaultGrace, append(ofWriting(idle.ReasonMinWriteRate), limit{unfinished, idle.ReasonReadTotal})},
		{"KeepAliveTimeout", &t.KeepAliveTimeout, nil, 75 * time.Second, []limit{{KeepAlive, idle.ReasonRead}, {noStream, idle.ReasonReadTotal}}},
		{"StreamTimeout", &t.StreamTimeout, nil, 5 * time.Minute, []limit{{Streams, idle.ReasonIdle}}},
	}
}

func ofBody(r idle.Reason) []limit { return []limit{{Request, r}, {unfinished, r}, {stream, r}} }

func ofWriting(r idle.Reason) (all []limit) {
	for p := range numPhases {
		if p != Hijacked {
			all = append(all, limit{p, r})
		}
	}
	return all
}

// complete fills in the default, and turns Off into 0.
func (s *setting) complete() error {
	if s.rate != nil {
		return s.completeRate()
	}
	switch d := s.duration; {
	case *d == 0:
		*d = s.byDefault
	case *d == httplimits.Off:
		*d = 0
	case *d < 0:
		return fmt.Errorf("%s is %v; use 0 for the default of %v, or Off to disable it", s.name, *d, s.byDefault)
	}
	return nil
}

func (s *setting) completeRate() error {
	switch r := s.rate; {
	case *r == idle.Rate{}:
		*r = idle.Rate{BytesPerSecond: defaultBytesPerSecond, Grace: s.byDefault}
	case r.BytesPerSecond == httplimits.Off:
		*r = idle.Rate{}
	case r.BytesPerSecond < 0:
		return fmt.Errorf("%s.BytesPerSecond is %d; use 0 for the default of %d, or Off to disable it", s.name, r.BytesPerSecond, defaultBytesPerSecond)
	case r.BytesPerSecond == 0:
		return fmt.Errorf("%s.BytesPerSecond is 0, but its Grace is %v; set both, or none for the default", s.name, r.Grace)
	case r.Grace == 0:
		r.Grace = s.byDefault
	}
	return nil
}

// in returns what p has for the limit: a duration or a rate.
func (l limit) in(p *idle.Policy) (*time.Duration, *idle.Rate) {
	switch l.reason {
	case idle.ReasonIdle:
		return &p.IdleTimeout, nil
	case idle.ReasonRead:
		return &p.ReadTimeout, nil
	case idle.ReasonReadTotal:
		return &p.ReadTotal, nil
	case idle.ReasonPhase:
		return &p.PhaseTimeout, nil
	case idle.ReasonWrite:
		return &p.WriteTimeout, nil
	case idle.ReasonMinReadRate:
		return nil, &p.MinReadRate
	}
	return nil, &p.MinWriteRate
}

// A name is what errors have of a limit: the name of a phase, and a reason.
type name struct {
	phase  string
	reason idle.Reason
}

// prepare completes t, and returns the policy of each phase, and by which setting each
// limit is known. Those of the user's own policies are not among them.
func prepare(t *httplimits.Timeouts) (all [numPhases]idle.Policy, known map[name]string, err error) {
	known = map[name]string{}
	for _, s := range settings(t) {
		if err := s.complete(); err != nil {
			return all, nil, err
		}
		for _, l := range s.limits {
			duration, rate := l.in(&all[l.phase])
			switch {
			case rate != nil:
				*rate = *s.rate
			case *duration > 0: // by a setting that is first
				continue
			case s.rate != nil:
				*duration = s.rate.Grace
			default:
				*duration = *s.duration
			}
			known[name{l.phase.String(), l.reason}] = s.name
		}
	}
	if all[unfinished].MinReadRate.BytesPerSecond > 0 {
		all[unfinished].ReadTotal = 0
	}
	if h := t.Hijacked.Heartbeat; h.Interval > 0 && !h.Passive {
		return all, nil, fmt.Errorf("the Heartbeat of Hijacked is active (every %v), but who would ping? Use Watch", h.Interval)
	}
	all[Hijacked] = t.Hijacked
	for p := range numPhases {
		all[p].Name = cmp.Or(all[p].Name, p.String())
	}
	return all, known, nil
}

// Of ticks, see tickFor. idle's least is finer, but is not chosen for anybody.
const (
	leastTick = 10 * time.Millisecond
	mostTick  = 100 * time.Millisecond
)

// tickFor returns the grain that is fine enough for the policies: a 50th of the
// shortest limit, from 10 to 100 ms. A finer one would have more of the requests be
// the first of their tick, which are those that store something.
func tickFor(policies ...idle.Policy) time.Duration {
	const share = 50
	shortest := mostTick * share
	for _, p := range policies {
		for _, limit := range []time.Duration{
			p.IdleTimeout, p.ReadTimeout, p.ReadTotal, p.WriteTimeout, p.PhaseTimeout, p.MaxAge, p.MaxAgeJitter, p.MaxAgeGrace,
			p.Heartbeat.Interval, p.Heartbeat.Timeout, p.MinReadRate.Grace, p.MinWriteRate.Grace,
		} {
			if limit > 0 {
				shortest = min(shortest, limit)
			}
		}
	}
	return max(shortest/share, leastTick)
}
