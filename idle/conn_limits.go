package idle

import (
	"strconv"
	"time"
)

// A limit is one of the limits that a [Policy] can set. Its row in the table
// below is most of what the package knows about it. How its clock counts is in
// conn_deadline.go.
type limit struct {
	name    string // of the reason, for metrics
	setting string // the field of Policy, for errors
	counts  clockOf

	// allowed returns the limit as configured, or 0 if it's off.
	allowed func(p *Policy) time.Duration

	// rate returns the minimum rate, if the limit is one. It is nil for all others.
	rate func(p *Policy) Rate

	// fields are the fields of Policy that have to be a number of ticks, or 0. If
	// nil, that is only the setting.
	fields []field

	// certain is set if nothing that the owner finds out can extend the limit.
	certain bool
}

// A clockOf says what a limit counts from.
type clockOf uint8

const (
	ofUse    clockOf = iota // the last use in either direction
	ofRead                  // the last byte that arrived during the current wait, or the start of the wait
	ofWrite                 // the last byte that was sent during the current wait, or the start of the wait
	ofReads                 // all waits since the phase began, less what bytes have paid for
	ofWrites                // like ofReads, for waits to send
	ofBeats                 // passive: the last beat; active: the last byte that arrived, then the last ping
	ofPhase                 // the start of the phase
	ofLife                  // the start of tracking
)

// A field is a field of Policy that has to be a number of ticks, or 0.
type field struct {
	name  string
	value func(p *Policy) time.Duration
}

// limits is the table of limits, with one row for each. If two limits pass
// in the same tick, the first row wins.
var limits = [numLimits]limit{
	ReasonIdle: {
		name: "idle", setting: "IdleTimeout", counts: ofUse,
		allowed: func(p *Policy) time.Duration { return p.IdleTimeout },
	},
	ReasonRead: {
		name: "read", setting: "ReadTimeout", counts: ofRead,
		allowed: func(p *Policy) time.Duration { return p.ReadTimeout },
	},
	ReasonWrite: {
		name: "write", setting: "WriteTimeout", counts: ofWrite,
		allowed: func(p *Policy) time.Duration { return p.WriteTimeout },
	},
	ReasonMaxAge: {
		name: "max_age", setting: "MaxAge", counts: ofLife, certain: true,
		allowed: func(p *Policy) time.Duration { return p.MaxAge },
		fields: []field{
			{"MaxAge", func(p *Policy) time.Duration { return p.MaxAge }},
			{"MaxAgeJitter", func(p *Policy) time.Duration { return p.MaxAgeJitter }},
			{"MaxAgeGrace", func(p *Policy) time.Duration { return p.MaxAgeGrace }},
		},
	},
	ReasonHeartbeat: {
		name: "heartbeat", setting: "Heartbeat", counts: ofBeats,
		allowed: func(p *Policy) time.Duration { return p.Heartbeat.limit() },
		fields: []field{
			{"Heartbeat.Interval", func(p *Policy) time.Duration { return p.Heartbeat.Interval }},
			{"Heartbeat.Timeout", func(p *Policy) time.Duration { return p.Heartbeat.Timeout }},
			{"Heartbeat.Jitter", func(p *Policy) time.Duration { return p.Heartbeat.Jitter }},
		},
	},
	ReasonMinReadRate: {
		name: "min_read_rate", setting: "MinReadRate", counts: ofReads,
		allowed: func(p *Policy) time.Duration { return p.MinReadRate.Grace },
		rate:    func(p *Policy) Rate { return p.MinReadRate },
		fields:  []field{{"MinReadRate.Grace", func(p *Policy) time.Duration { return p.MinReadRate.Grace }}},
	},
	ReasonMinWriteRate: {
		name: "min_write_rate", setting: "MinWriteRate", counts: ofWrites,
		allowed: func(p *Policy) time.Duration { return p.MinWriteRate.Grace },
		rate:    func(p *Policy) Rate { return p.MinWriteRate },
		fields:  []field{{"MinWriteRate.Grace", func(p *Policy) time.Duration { return p.MinWriteRate.Grace }}},
	},
	ReasonPhase: {
		name: "phase", setting: "PhaseTimeout", counts: ofPhase, certain: true,
		allowed: func(p *Policy) time.Duration { return p.PhaseTimeout },
	},
	ReasonReadTotal: {
		name: "read_total", setting: "ReadTotal", counts: ofReads,
		allowed: func(p *Policy) time.Duration { return p.ReadTotal },
	},
}

// setting returns the field of [Policy] that sets the limit.
func (r Reason) setting() string {
	if r > 0 && r < numLimits {
		return limits[r].setting
	}
	return r.String()
}

// String returns the reason's name in snake_case, as metrics need it: "idle",
// "read", "write", "max_age", "heartbeat", "min_read_rate", "min_write_rate",
// "phase" or "read_total" for limits, and "drain", "shed" or "evict" for operations. It returns
// "none" for the zero Reason.
func (r Reason) String() string {
	switch {
	case r == 0:
		return "none"
	case r < numLimits:
		return limits[r].name
	case r < numReasons:
		return others[r-numLimits]
	}
	return "reason " + strconv.Itoa(int(r))
}
