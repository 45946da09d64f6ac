package httpconn

import (
	"fmt"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// SetPressure makes the Timeouts tighter while a resource runs out: see
// [idle.Tracker.SetPressure]. At full pressure they are those of full. A field that is zero
// in full stays as it is at rest. p.Policy and p.Phases must not be set, nor Idle and
// OnTimeout of full. idle.Pressure{} ends it. If anything is refused, nothing is changed.
func (l *Listener) SetPressure(p idle.Pressure, full httplimits.Timeouts) error {
	if err := l.setPressure(p, full); err != nil {
		return fmt.Errorf("%s: SetPressure: %w", l.pkg, err)
	}
	return nil
}

func (l *Listener) setPressure(p idle.Pressure, full httplimits.Timeouts) error {
	l.own.mu.Lock()
	defer l.own.mu.Unlock()
	if p.Read == nil {
		return l.press(p, idle.Policy{})
	}
	if p.Policy.Name != "" || setsLimit(p.Policy) || p.Phases != nil {
		return fmt.Errorf("Pressure.Policy or Phases is set; set the Timeouts at full pressure instead")
	}
	if full.OnTimeout != nil {
		return fmt.Errorf("OnTimeout is set at full pressure; it is the one of the listener")
	}
	rest := l.now.Load().timeouts
	if err := completeFull(settings(&full), settings(&rest)); err != nil {
		return err
	}
	policies, _ := assignLimits(&full)
	p.Phases = map[*idle.Phase]idle.Policy{}
	for i, policy := range policies {
		if setsLimit(policy) && Phase(i) != resetPending { // whose limits are of several settings, and short
			p.Phases[l.phases[i]] = policy
		}
	}
	if len(p.Phases) == 0 {
		return fmt.Errorf("no field of the Timeouts at full pressure is set")
	}
	return l.press(p, policies[stream])
}

// press has connections follow p, and streams too, which have a tracker of their own.
func (l *Listener) press(p idle.Pressure, ofStreams idle.Policy) error {
	if err := l.tracker.SetPressure(p); err != nil {
		return err
	}
	return l.streams.setPressure(func(t *idle.Tracker, phase *idle.Phase) error {
		own := idle.Pressure{}
		if setsLimit(ofStreams) {
			own = p
			own.Phases = map[*idle.Phase]idle.Policy{phase: ofStreams}
		}
		return t.SetPressure(own)
	})
}

// completeFull checks the settings at full pressure. Zero stays zero: as at rest.
func completeFull(full, rest []setting) error {
	for i, f := range full {
		name, is, was := f.name, f.duration, rest[i].duration
		if r, at := f.rate, rest[i].rate; r != nil {
			if *r == (idle.Rate{}) {
				continue
			}
			if r.BytesPerSecond <= 0 || r.BytesPerSecond < at.BytesPerSecond {
				return fmt.Errorf("%s.BytesPerSecond is %d at full pressure, and %d at rest; use at least that, or an empty Rate to leave it", name, r.BytesPerSecond, at.BytesPerSecond)
			}
			if r.Grace == 0 {
				r.Grace = at.Grace
			}
			name, is, was = name+".Grace", &r.Grace, &at.Grace
		}
		switch {
		case *is < 0:
			return fmt.Errorf("%s is %v at full pressure; use 0 to leave it as at rest", name, *is)
		case *was > 0 && *is > *was:
			return fmt.Errorf("%s is %v at full pressure, longer than the %v at rest; use at most that, or 0 to leave it", name, *is, *was)
		}
	}
	return nil
}
