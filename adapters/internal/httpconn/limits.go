// Package httpconn takes the connections of an HTTP server through the phases of
// their requests, each with limits of its own. What it needs to know of a server
// are events, which the adapters find in the server's hooks.
package httpconn

import (
	"fmt"
	"net"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// Off, as a limit, is none at all; 0 is the default.
const Off = -1

// Limits are what the adapters' Timeouts are made of. Fields have the meaning
// that they have there.
type Limits struct {
	Handshake, Header, Body, Handler, Write, KeepAlive, Stream time.Duration
	BodyRate, WriteRate                                        idle.Rate

	// HTTP2 says that the server speaks it also without TLS.
	HTTP2 bool

	Hijacked  idle.Policy
	OnTimeout func(c net.Conn, err *idle.TimeoutError) (keep bool)
	Idle      idle.Options
}

// The defaults; the adapters' documentation has the reasons.
const (
	defaultHandshake = 10 * time.Second
	defaultHeader    = 10 * time.Second
	defaultBody      = 30 * time.Second
	defaultWrite     = 30 * time.Second
	defaultKeepAlive = 75 * time.Second
	defaultStream    = 5 * time.Minute

	defaultBytesPerSecond = 240
	defaultGrace          = 5 * time.Second
)

// complete fills in the defaults, and turns what is Off into 0. pkg is the
// package of which the user knows the fields.
func (l *Limits) complete(pkg string) error {
	for _, f := range []struct {
		name  string
		value *time.Duration
		by0   time.Duration
	}{
		{"HandshakeTimeout", &l.Handshake, defaultHandshake},
		{"HeaderTimeout", &l.Header, defaultHeader},
		{"BodyTimeout", &l.Body, defaultBody},
		{"HandlerTimeout", &l.Handler, 0},
		{"WriteTimeout", &l.Write, defaultWrite},
		{"KeepAliveTimeout", &l.KeepAlive, defaultKeepAlive},
		{"StreamTimeout", &l.Stream, defaultStream},
	} {
		switch {
		case *f.value == 0:
			*f.value = f.by0
		case *f.value == Off:
			*f.value = 0
		case *f.value < 0:
			return fmt.Errorf("%s: %s is %v; use 0 for the default of %v, or Off to disable it", pkg, f.name, *f.value, f.by0)
		}
	}
	if err := completeRate(pkg, "BodyRate", &l.BodyRate); err != nil {
		return err
	}
	if h := l.Hijacked.Heartbeat; h.Interval > 0 && !h.Passive {
		return fmt.Errorf("%s: Hijacked has an active Heartbeat (every %v), but who would ping? Use Watch", pkg, h.Interval)
	}
	return completeRate(pkg, "WriteRate", &l.WriteRate)
}

func completeRate(pkg, name string, r *idle.Rate) error {
	switch {
	case *r == idle.Rate{}:
		*r = idle.Rate{BytesPerSecond: defaultBytesPerSecond, Grace: defaultGrace}
	case r.BytesPerSecond == Off:
		*r = idle.Rate{}
	case r.BytesPerSecond < 0:
		return fmt.Errorf("%s: %s.BytesPerSecond is %d; use 0 for the default of %d, or Off to disable it", pkg, name, r.BytesPerSecond, defaultBytesPerSecond)
	case r.BytesPerSecond == 0:
		return fmt.Errorf("%s: %s.BytesPerSecond is 0, but its Grace is %v; set both, or none for the default", pkg, name, r.Grace)
	case r.Grace == 0:
		r.Grace = defaultGrace
	}
	return nil
}

// Of ticks, see tickFor. idle's least is finer, but is not chosen for anybody.
const (
	leastTick = 10 * time.Millisecond
	mostTick  = 100 * time.Millisecond
)

// tick returns the grain for the limits, which are complete.
func (l *Limits) tick() time.Duration {
	all := l.policies()
	return tickFor(all[:]...)
}

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

// A Phase is what is going on on a connection.
type Phase uint8

const (
	Handshake Phase = iota // from the accept to the first byte of a request
	Header                 // from there to the end of the header
	Request                // from there to the end of the response
	KeepAlive              // between requests
	Streams                // HTTP/2, while streams are open
	Hijacked
	numPhases

	none = numPhases // one that no Read waits in
)

// String returns what the phase is called in errors and counters.
func (p Phase) String() string {
	return [...]string{"handshake", "request header", "request", "keep-alive", "streams", "hijacked"}[p]
}

// policies returns the policy of each phase. Those of writing are the same in
// all that are part of HTTP/1: a response may be on its way in any of them.
func (l *Limits) policies() (all [numPhases]idle.Policy) {
	all[Handshake] = idle.Policy{ReadTotal: l.Handshake}
	all[Header] = idle.Policy{ReadTotal: l.Header}
	all[Request] = idle.Policy{PhaseTimeout: l.Handler, ReadTimeout: l.Body, MinReadRate: l.BodyRate}
	all[KeepAlive] = idle.Policy{ReadTimeout: l.KeepAlive}
	all[Streams] = idle.Policy{IdleTimeout: l.Stream}
	for p := range Hijacked {
		all[p].WriteTimeout, all[p].MinWriteRate = l.Write, l.WriteRate
	}
	all[Hijacked] = l.Hijacked
	for p := range numPhases {
		if all[p].Name == "" {
			all[p].Name = p.String()
		}
	}
	return all
}
