package pressure

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// Scale returns the policy between rest and full at a pressure from 0 to 1: at 0 it's rest, and
// at 1 the limits are those that full sets. In between, each limit moves in proportion to the
// pressure. [Follow] uses it.
//
// Durations are rounded to milliseconds, and other numbers in favor of the peer. These
// rules apply to each field:
//
//   - A field that is zero in full, or is tighter at rest, stays as it is at rest.
//   - A limit that is off at rest is off below 1, and has the value of full at 1.
//   - A Heartbeat that is off at rest stays off, because the peer doesn't expect one.
//   - Heartbeat.Jitter is never more than the Interval.
//   - Name, NoInterrupt, Handshake, Heartbeat.Passive and Heartbeat.CountsAsUse stay as they are
//     at rest.
//
// A pressure below 0 or NaN counts as 0, and one above 1 as 1.
func Scale(rest, full idle.Policy, pressure float64) idle.Policy {
	if !(pressure > 0) {
		return rest
	}
	at := scale(min(pressure, 1))
	p := rest
	p.IdleTimeout = at.limit(rest.IdleTimeout, full.IdleTimeout)
	p.ReadTimeout = at.limit(rest.ReadTimeout, full.ReadTimeout)
	p.ReadTotal = at.limit(rest.ReadTotal, full.ReadTotal)
	p.WriteTimeout = at.limit(rest.WriteTimeout, full.WriteTimeout)
	p.PhaseTimeout = at.limit(rest.PhaseTimeout, full.PhaseTimeout)
	p.MaxAge = at.limit(rest.MaxAge, full.MaxAge)
	if rest.MaxAge == 0 && p.MaxAge != 0 {
		p.MaxAgeJitter, p.MaxAgeGrace = full.MaxAgeJitter, full.MaxAgeGrace
	} else {
		p.MaxAgeJitter = at.part(rest.MaxAgeJitter, full.MaxAgeJitter)
		p.MaxAgeGrace = at.part(rest.MaxAgeGrace, full.MaxAgeGrace)
	}
	p.Heartbeat = at.heartbeat(rest.Heartbeat, full.Heartbeat)
	p.MinReadRate = at.rate(rest.MinReadRate, full.MinReadRate)
	p.MinWriteRate = at.rate(rest.MinWriteRate, full.MinWriteRate)
	return p
}

// A scale is a pressure above 0.
type scale float64

// limit returns the limit between rest and full. Zero means off at rest, and as at rest
// in full.
func (s scale) limit(rest, full time.Duration) time.Duration {
	if rest == 0 && s == 1 {
		return full
	}
	return s.part(rest, full)
}

// part is limit for a duration that is added to others, so zero at rest is no time.
func (s scale) part(rest, full time.Duration) time.Duration {
	switch {
	case full == 0 || full >= rest:
		return rest
	case s == 1:
		return full
	}
	d := rest - time.Duration(math.Round(float64(s)*float64(rest-full)))
	return min(max(d.Round(time.Millisecond), full), rest)
}

func (s scale) heartbeat(rest, full idle.Heartbeat) idle.Heartbeat {
	h := rest
	h.Interval = s.part(rest.Interval, full.Interval)
	h.Timeout = s.part(rest.Timeout, full.Timeout)
	h.Jitter = min(s.part(rest.Jitter, full.Jitter), h.Interval)
	if was := misses(rest); full.Misses != 0 && full.Misses < was {
		h.Misses = was - int(float64(s)*float64(was-full.Misses))
	}
	return h
}

func (s scale) rate(rest, full idle.Rate) idle.Rate {
	r := rest
	if rest == (idle.Rate{}) {
		if s == 1 {
			r = full
		}
		return r
	}
	r.Grace = s.part(rest.Grace, full.Grace)
	switch more := full.BytesPerSecond - rest.BytesPerSecond; {
	case full.BytesPerSecond == 0 || more <= 0 && full.BytesPerSecond > 0:
	case s == 1:
		r.BytesPerSecond = full.BytesPerSecond
	default:
		r.BytesPerSecond += int(float64(s) * float64(more))
	}
	return r
}

// misses returns the Misses of h, where 0 means 1.
func misses(h idle.Heartbeat) int { return max(h.Misses, 1) }

// checkFull returns an error if a field that full sets is not at least as tight as the
// one of rest. A limit that is off at rest may have any value.
func checkFull(rest, full *idle.Policy) error {
	for _, f := range []struct {
		name    string
		on      time.Duration // 0: the limit is off at rest
		was, is time.Duration
	}{
		{"IdleTimeout", rest.IdleTimeout, rest.IdleTimeout, full.IdleTimeout},
		{"ReadTimeout", rest.ReadTimeout, rest.ReadTimeout, full.ReadTimeout},
		{"ReadTotal", rest.ReadTotal, rest.ReadTotal, full.ReadTotal},
		{"WriteTimeout", rest.WriteTimeout, rest.WriteTimeout, full.WriteTimeout},
		{"PhaseTimeout", rest.PhaseTimeout, rest.PhaseTimeout, full.PhaseTimeout},
		{"MaxAge", rest.MaxAge, rest.MaxAge, full.MaxAge},
		{"MaxAgeJitter", rest.MaxAge, rest.MaxAgeJitter, full.MaxAgeJitter},
		{"MaxAgeGrace", rest.MaxAge, rest.MaxAgeGrace, full.MaxAgeGrace},
		{"Heartbeat.Interval", rest.Heartbeat.Interval, rest.Heartbeat.Interval, full.Heartbeat.Interval},
		{"Heartbeat.Timeout", rest.Heartbeat.Interval, rest.Heartbeat.Timeout, full.Heartbeat.Timeout},
		{"Heartbeat.Jitter", rest.Heartbeat.Interval, rest.Heartbeat.Jitter, full.Heartbeat.Jitter},
		{"MinReadRate.Grace", rest.MinReadRate.Grace, rest.MinReadRate.Grace, full.MinReadRate.Grace},
		{"MinWriteRate.Grace", rest.MinWriteRate.Grace, rest.MinWriteRate.Grace, full.MinWriteRate.Grace},
	} {
		if f.on > 0 && f.is > f.was {
			return fmt.Errorf("%s is %v at full pressure, longer than the %v at rest; use at most that, or 0 to leave it as at rest", f.name, f.is, f.was)
		}
	}
	return cmp.Or(
		checkRate("MinReadRate", rest.MinReadRate, full.MinReadRate),
		checkRate("MinWriteRate", rest.MinWriteRate, full.MinWriteRate),
		checkHeartbeat(rest.Heartbeat, full.Heartbeat),
	)
}

func checkRate(name string, rest, full idle.Rate) error {
	if is, was := full.BytesPerSecond, rest.BytesPerSecond; is > 0 && is < was {
		return fmt.Errorf("%s.BytesPerSecond is %d at full pressure, lower than the %d at rest; use at least that, or 0 to leave it as at rest", name, is, was)
	}
	return nil
}

func checkHeartbeat(rest, full idle.Heartbeat) error {
	switch {
	case rest.Interval == 0 && full != idle.Heartbeat{}:
		return fmt.Errorf("Heartbeat.Interval is %v at full pressure, and 0 at rest; set it at rest too, as peers have to expect it", full.Interval)
	case full.Passive && !rest.Passive:
		return fmt.Errorf("Heartbeat.Passive is true at full pressure, and false at rest; the form cannot change")
	case full.Misses > misses(rest):
		return fmt.Errorf("Heartbeat.Misses is %d at full pressure, more than the %d at rest; use at most that, or 0 to leave it as at rest", full.Misses, misses(rest))
	}
	return nil
}
