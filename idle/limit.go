package idle

import (
	"strconv"
	"time"
)

// A limit is one thing that a [Policy] can limit. A row of the table below is all
// that the package knows of it; what it counts from is in count.go.
type limit struct {
	name    string // of the reason, in metrics
	setting string // the field of Policy, for errors
	counts  clockOf

	// allowed is how long the limit allows, as configured; 0 if it is off.
	allowed func(p *Policy) time.Duration

	// fields are what has to be a number of ticks, or 0, if that is not just the
	// setting.
	fields []field

	// certain limits are passed whatever the owner may find out.
	certain bool
}

// A clockOf is what a limit counts from.
type clockOf uint8

const (
	ofActivity clockOf = iota // the last byte in either direction
	ofRead                    // the last byte that arrived in the present wait, or its beginning
	ofWrite                   // the last byte that went out in the present wait, or its beginning
	ofReads                   // the time of all waits since the phase began that is not paid for
	ofWrites
	ofBeats // the last beat; or the last byte that arrived, and then the last ping
	ofPhase // the beginning of the phase
	ofLife  // the beginning of tracking
)

// A field is one of a policy that has to be a number of ticks, or 0.
type field struct {
	name  string
	value func(p *Policy) time.Duration
}

// limits is the table, a row for each reason. Of limits that are passed at the same
// tick the first wins.
var limits = [numReasons]limit{
	ReasonIdle: {
		name: "idle", setting: "IdleTimeout", counts: ofActivity,
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
		},
	},
	ReasonMinReadRate: {
		name: "min_read_rate", setting: "MinReadRate", counts: ofReads,
		allowed: func(p *Policy) time.Duration { return p.MinReadRate.Grace },
		fields:  []field{{"MinReadRate.Grace", func(p *Policy) time.Duration { return p.MinReadRate.Grace }}},
	},
	ReasonMinWriteRate: {
		name: "min_write_rate", setting: "MinWriteRate", counts: ofWrites,
		allowed: func(p *Policy) time.Duration { return p.MinWriteRate.Grace },
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
	if r > 0 && r < numReasons {
		return limits[r].setting
	}
	return r.String()
}

// String returns the reason's name in snake_case, as metrics want it: "idle", "read",
// "write", "max_age", "heartbeat", "min_read_rate", "min_write_rate", "phase" or
// "read_total".
func (r Reason) String() string {
	switch {
	case r == 0:
		return "none"
	case r < numReasons:
		return limits[r].name
	}
	return "reason " + strconv.Itoa(int(r))
}
