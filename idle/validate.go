package idle

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

// fields yields the fields of a policy that have to be a number of ticks, or 0.
func fields(yield func(field) bool) {
	for r := ReasonIdle; r < numLimits; r++ {
		own := limits[r].fields
		if own == nil {
			own = []field{{limits[r].setting, limits[r].allowed}}
		}
		for _, f := range own {
			if !yield(f) {
				return
			}
		}
	}
}

// errNoLimit is the error for a tracker whose policy sets no limit.
func errNoLimit() error {
	var settings []string
	for r := ReasonIdle; r < numLimits; r++ {
		settings = append(settings, limits[r].setting)
	}
	return errors.New("idle: the policy sets no limit; set at least one of " + strings.Join(settings, ", "))
}

const (
	maxMisses = 100
	mostLabel = 128 // bytes of a name, a label or a cause
)

// validate returns an error if p is invalid with the given tick.
func (p *Policy) validate(tick time.Duration) error {
	if len(p.Name) > mostLabel {
		return fmt.Errorf("idle: Name of a policy has %d bytes (%.20q...); use at most %d", len(p.Name), p.Name, mostLabel)
	}
	longest := maxTicks * tick
	for f := range fields {
		switch value := f.value(p); {
		case value < 0:
			return fmt.Errorf("idle: %s is %v; use 0 to disable it", f.name, value)
		case value > 0 && value < tick:
			return fmt.Errorf("idle: %s is %v, shorter than the tick of %v; use a longer timeout (with a unit, like 60*time.Second) or a shorter Options.Tick", f.name, value, tick)
		case value > longest:
			return fmt.Errorf("idle: %s is %v; with a tick of %v the longest is %v; use a longer Options.Tick, or 0 to disable it", f.name, value, tick, longest)
		}
	}
	if age := p.MaxAge + p.MaxAgeJitter + p.MaxAgeGrace; age > longest {
		return fmt.Errorf("idle: MaxAge with jitter and grace is %v; with a tick of %v the longest is %v; use a longer Options.Tick, or less of each", age, tick, longest)
	}
	if p.MaxAge == 0 && (p.MaxAgeJitter > 0 || p.MaxAgeGrace > 0) {
		return fmt.Errorf("idle: MaxAge is 0, but MaxAgeJitter is %v and MaxAgeGrace is %v; set MaxAge too", p.MaxAgeJitter, p.MaxAgeGrace)
	}
	if p.ReadTotal > 0 && p.MinReadRate.BytesPerSecond > 0 {
		return fmt.Errorf("idle: ReadTotal is %v and MinReadRate is %d bytes a second; set only one of them", p.ReadTotal, p.MinReadRate.BytesPerSecond)
	}
	return cmp.Or(
		p.Heartbeat.validate(longest),
		p.MinReadRate.validate("MinReadRate", tick),
		p.MinWriteRate.validate("MinWriteRate", tick),
	)
}

func (h *Heartbeat) validate(longest time.Duration) error {
	switch {
	case h.Misses < 0 || h.Misses > maxMisses:
		return fmt.Errorf("idle: Heartbeat.Misses is %d; it must be 0 to %d", h.Misses, maxMisses)
	case h.Interval == 0 && *h != Heartbeat{}:
		return fmt.Errorf("idle: Heartbeat.Interval is 0, but other fields of Heartbeat are set (%+v); set Interval too", *h)
	case h.Interval > 0 && h.Timeout == 0 && !h.Passive:
		return fmt.Errorf("idle: Heartbeat.Timeout is 0; set it to how long the answer to a ping may take")
	case h.Passive && h.Jitter > 0:
		return fmt.Errorf("idle: Heartbeat.Jitter is %v, but Heartbeat is Passive, so there are no pings to spread; use 0", h.Jitter)
	case h.Passive && h.CountsAsUse:
		return errors.New("idle: Heartbeat.CountsAsUse is set, but Heartbeat is Passive, so there are no pings")
	case h.Jitter > h.Interval:
		return fmt.Errorf("idle: Heartbeat.Jitter is %v; it must be at most the Interval of %v", h.Jitter, h.Interval)
	case max(h.Interval, h.Timeout) > longest/time.Duration(h.misses()+1):
		return fmt.Errorf("idle: Heartbeat.Misses is %d, with an Interval of %v and a Timeout of %v; all together must be no longer than %v", h.Misses, h.Interval, h.Timeout, longest)
	}
	return nil
}

func (r *Rate) validate(name string, tick time.Duration) error {
	switch most := maxRate(tick); {
	case int64(r.BytesPerSecond) > most:
		return fmt.Errorf("idle: %s.BytesPerSecond is %d; with a tick of %v the most is %d; use a shorter Options.Tick, or 0 to disable it", name, r.BytesPerSecond, tick, most)
	case r.BytesPerSecond < 0:
		return fmt.Errorf("idle: %s.BytesPerSecond is %d; use 0 to disable it", name, r.BytesPerSecond)
	case r.BytesPerSecond == 0 && r.Grace != 0:
		return fmt.Errorf("idle: %s.BytesPerSecond is 0, but its Grace is %v; set both or none", name, r.Grace)
	case r.BytesPerSecond > 0 && r.Grace == 0:
		return fmt.Errorf("idle: %s.Grace is 0; set it to how long a slow start may take", name)
	}
	return nil
}

// maxRate returns the highest rate in bytes a second for which the price of a
// byte, a whole number of 2⁻³² ticks rounded up, is exact to a hundredth. With a
// tick of 10 ms that is 4.3 GB/s.
func maxRate(tick time.Duration) int64 {
	const fine = 100 // the least price of a byte, in 2⁻³² ticks
	return int64(uint64(time.Second) << 32 / uint64(tick) / fine)
}

// notNegative returns an error if the named value is negative.
func notNegative(name string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("idle: %s is %v; it must not be negative", name, d)
	}
	return nil
}
