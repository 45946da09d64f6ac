package idle

import (
	"strconv"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/deadlines"
)

// A limit is one of the limits that a [Policy] can set. Its row in the table
// below is most of what the package knows about it. How its clock counts is in
// internal/deadlines.
type limit struct {
	name    string // of the reason, for metrics
	setting string // the field of Policy, for errors
	counts  deadlines.Basis

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

// A field is a field of Policy that has to be a number of ticks, or 0.
type field struct {
	name  string
	value func(p *Policy) time.Duration
}

// limits is the table of limits, with one row for each. If two limits pass
// in the same tick, the first row wins.
var limits = [numLimits]limit{
	ReasonIdle: {
		name: "idle", setting: "IdleTimeout", counts: deadlines.OfUse,
		allowed: func(p *Policy) time.Duration { return p.IdleTimeout },
	},
	ReasonRead: {
		name: "read", setting: "ReadTimeout", counts: deadlines.OfRead,
		allowed: func(p *Policy) time.Duration { return p.ReadTimeout },
	},
	ReasonWrite: {
		name: "write", setting: "WriteTimeout", counts: deadlines.OfWrite,
		allowed: func(p *Policy) time.Duration { return p.WriteTimeout },
	},
	ReasonMaxAge: {
		name: "max_age", setting: "MaxAge", counts: deadlines.OfLife, certain: true,
		allowed: func(p *Policy) time.Duration { return p.MaxAge },
		fields: []field{
			{"MaxAge", func(p *Policy) time.Duration { return p.MaxAge }},
			{"MaxAgeJitter", func(p *Policy) time.Duration { return p.MaxAgeJitter }},
			{"MaxAgeGrace", func(p *Policy) time.Duration { return p.MaxAgeGrace }},
		},
	},
	ReasonHeartbeat: {
		name: "heartbeat", setting: "Heartbeat", counts: deadlines.OfBeats,
		allowed: func(p *Policy) time.Duration { return p.Heartbeat.limit() },
		fields: []field{
			{"Heartbeat.Interval", func(p *Policy) time.Duration { return p.Heartbeat.Interval }},
			{"Heartbeat.Timeout", func(p *Policy) time.Duration { return p.Heartbeat.Timeout }},
			{"Heartbeat.Jitter", func(p *Policy) time.Duration { return p.Heartbeat.Jitter }},
		},
	},
	ReasonMinReadRate: {
		name: "min_read_rate", setting: "MinReadRate", counts: deadlines.OfReads,
		allowed: func(p *Policy) time.Duration { return p.MinReadRate.Grace },
		rate:    func(p *Policy) Rate { return p.MinReadRate },
		fields:  []field{{"MinReadRate.Grace", func(p *Policy) time.Duration { return p.MinReadRate.Grace }}},
	},
	ReasonMinWriteRate: {
		name: "min_write_rate", setting: "MinWriteRate", counts: deadlines.OfWrites,
		allowed: func(p *Policy) time.Duration { return p.MinWriteRate.Grace },
		rate:    func(p *Policy) Rate { return p.MinWriteRate },
		fields:  []field{{"MinWriteRate.Grace", func(p *Policy) time.Duration { return p.MinWriteRate.Grace }}},
	},
	ReasonPhase: {
		name: "phase", setting: "PhaseTimeout", counts: deadlines.OfPhase, certain: true,
		allowed: func(p *Policy) time.Duration { return p.PhaseTimeout },
	},
	ReasonReadTotal: {
		name: "read_total", setting: "ReadTotal", counts: deadlines.OfReads,
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
// "phase" or "read_total" for limits, and "drain", "shed" or "evict" for the others. It returns
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
