package idle

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// Scale returns the policy between rest and full at a pressure from 0 to 1: rest at 0,
// and at 1 the limits of full where it sets any. In between each limit is as far from
// the one at rest as the pressure is from 0. [Pressure] uses it.
//
// Durations are rounded to milliseconds, and other numbers in favor of the peer. These
// rules apply to each field:
//
//   - A field that is zero in full stays as it is at rest, and so does one that is
//     tighter at rest.
//   - A limit that is off at rest is off below 1, and is the one of full at 1.
//   - A Heartbeat that is off at rest stays off, as the peer does not expect one.
//   - Name, Busy and Heartbeat.Passive are those at rest.
//
// A pressure below 0 or NaN counts as 0, and one above 1 as 1.
func Scale(rest, full Policy, pressure float64) Policy {
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

func (s scale) heartbeat(rest, full Heartbeat) Heartbeat {
	h := rest
	h.Interval = s.part(rest.Interval, full.Interval)
	h.Timeout = s.part(rest.Timeout, full.Timeout)
	if was := rest.misses(); full.Misses != 0 && full.Misses < was {
		h.Misses = was - int(float64(s)*float64(was-full.Misses))
	}
	return h
}

func (s scale) rate(rest, full Rate) Rate {
	r := rest
	if rest == (Rate{}) {
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

// checkFull returns an error if a field that full sets is not at least as tight as the
// one of rest.
func checkFull(rest, full *Policy) error {
	for r := range limits {
		l := &limits[r]
		if l.allowed == nil || l.allowed(rest) == 0 {
			continue // off
		}
		own := l.fields
		if own == nil {
			own = []field{{l.setting, l.allowed}}
		}
		for _, f := range own {
			if was, is := f.value(rest), f.value(full); is > was {
				return fmt.Errorf("idle: %s is %v at full pressure, longer than the %v at rest; use at most that, or 0 to leave it as at rest", f.name, is, was)
			}
		}
	}
	return cmp.Or(
		full.MinReadRate.checkFull("MinReadRate", rest.MinReadRate),
		full.MinWriteRate.checkFull("MinWriteRate", rest.MinWriteRate),
		full.Heartbeat.checkFull(rest.Heartbeat),
	)
}

func (r Rate) checkFull(name string, rest Rate) error {
	if is, was := r.BytesPerSecond, rest.BytesPerSecond; is > 0 && is < was {
		return fmt.Errorf("idle: %s.BytesPerSecond is %d at full pressure, lower than the %d at rest; use at least that, or 0 to leave it as at rest", name, is, was)
	}
	return nil
}

func (h Heartbeat) checkFull(rest Heartbeat) error {
	switch {
	case rest.Interval == 0 && h != Heartbeat{}:
		return fmt.Errorf("idle: Heartbeat.Interval is %v at full pressure, and 0 at rest; set it at rest too, as peers have to expect it", h.Interval)
	case h.Passive && !rest.Passive:
		return fmt.Errorf("idle: Heartbeat.Passive is true at full pressure, and false at rest; the form cannot change")
	case h.Misses > rest.misses():
		return fmt.Errorf("idle: Heartbeat.Misses is %d at full pressure, more than the %d at rest; use at most that, or 0 to leave it as at rest", h.Misses, rest.misses())
	}
	return nil
}
