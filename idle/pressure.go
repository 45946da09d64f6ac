package idle

import (
	"fmt"
	"strings"
	"time"
)

// Pressure makes the limits of connections tighter while a resource runs out, such as
// memory or descriptors: see [Tracker.SetPressure]. The pressure is a number from 0, at
// rest, to 1. Read gives it, From and Upto choose the range that matters:
//
//	idle.Pressure{
//		Read: pressure.Heap, From: 0.85, Upto: 0.95,
//		Policy: idle.Policy{IdleTimeout: 2 * time.Second},
//	}
//
// While less than 85 % of the memory are in use, this changes nothing. From 95 % on,
// IdleTimeout is 2 s. With an IdleTimeout of 10 minutes at rest it is 181.4 s at 92 %.
//
// The pressure is the highest of the last ten readings. So it rises at once, and falls
// when no reading has been as high for ten times Every. Changes by less than 0.05 are
// ignored unless the pressure becomes 0 or 1, so that small ones cost nothing.
type Pressure struct {
	// Read returns how much of the resource is in use, from 0 to 1. It is called on a
	// goroutine of its own, and may block. Package pressure has such functions. If
	// Read fails, panics, or returns another number or NaN, the pressure stays as it
	// is. This is logged, for the first reading of several in a row, and counted
	// ([Stats].Misread and Panics).
	Read func() (float64, error)

	// From and Upto are the readings at which the pressure begins to rise from 0, and
	// is 1. An Upto of 0 stands for 1.
	From, Upto float64

	// Policy is the policy under full pressure of connections that have not entered
	// another phase. Phases has those of other phases. [Scale] says what the limits
	// are between rest and full pressure. A limit that is not set here stays as it is
	// at rest. None may be longer than at rest. A zero Policy changes nothing.
	Policy Policy
	Phases map[*Phase]Policy

	// Every is how often Read is called. The default is 1 s.
	Every time.Duration
}

// complete returns p with defaults filled in, or an error that names an invalid field.
func (p Pressure) complete(tick time.Duration) (Pressure, error) {
	if p.Upto == 0 {
		p.Upto = 1
	}
	if p.Every == 0 {
		p.Every = time.Second
	}
	switch {
	case p.Read == nil:
		return p, fmt.Errorf("idle: Pressure.Read is nil; set it to a function that returns a number from 0 to 1, or use Pressure{} to end pressure")
	case !(p.From >= 0 && p.From < p.Upto && p.Upto <= 1):
		return p, fmt.Errorf("idle: Pressure.From is %v and Upto is %v; they must be from 0 to 1, and From less than Upto", p.From, p.Upto)
	case p.Every < tick:
		return p, fmt.Errorf("idle: Pressure.Every is %v; it must be at least the tick of %v, or 0 for 1s", p.Every, tick)
	case !p.Policy.setsLimit() && len(p.Phases) == 0:
		return p, fmt.Errorf("idle: Pressure.Policy and Phases set no limit; set those that are to be tighter under full pressure")
	}
	return p, nil
}

// isZero reports whether no field of p is set.
func (p *Pressure) isZero() bool {
	return p.Read == nil && p.From == 0 && p.Upto == 0 && p.Policy == (Policy{}) && p.Phases == nil && p.Every == 0
}

// of returns the pressure that a reading means.
func (p *Pressure) of(reading float64) float64 {
	return min(max((reading-p.From)/(p.Upto-p.From), 0), 1)
}

// pressing is a Pressure in use. The mu of its tracker guards it.
type pressing struct {
	Pressure                   // never changed
	full     map[*Phase]Policy // the policies at full pressure of all phases that have one
	gauge    gauge
	blind    bool          // the last reading failed
	over     chan struct{} // closed when it is not in use any more
}

// version returns the version of a phase with the policy rest under the present
// pressure, or an error if there is none at full pressure. n may be nil.
func (n *pressing) version(phase *Phase, rest Policy) (*Phase, error) {
	k := phase.clock
	full, ok := Policy{}, false
	if n != nil {
		full, ok = n.full[phase.first]
	}
	if !ok {
		return newPhase(k, rest), nil
	}
	most := Scale(rest, full, 1)
	if err := most.validate(k.tick); err != nil {
		return nil, inPhase(rest.Name, fmt.Errorf("idle: under full pressure, %s", strings.TrimPrefix(err.Error(), "idle: ")))
	}
	next := newPhase(k, Scale(rest, full, n.gauge.shows))
	next.rest = &rest
	return next, nil
}

// inPhase returns err with the name of a phase.
func inPhase(name string, err error) error {
	if name == "" {
		return err
	}
	return fmt.Errorf("idle: phase %q: %s", name, strings.TrimPrefix(err.Error(), "idle: "))
}
