package httpconn

import (
	"errors"
	"fmt"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

// FollowPressure makes the Timeouts tighter while a resource runs out: see
// [pressure.Follow]. At full pressure the Timeouts in full apply. Where full has a zero
// field, the normal value stays. c.Policy and c.Phases must not be set, nor Idle,
// OnTimeout and OnEnd of full. If anything is refused, nothing is changed.
func (l *Listener) FollowPressure(c pressure.Config, full httplimits.Timeouts) (*pressure.Follower, error) {
	f, err := l.followPressure(c, full)
	if err != nil {
		return nil, fmt.Errorf("%s: FollowPressure: %w", l.pkg, err)
	}
	return f, nil
}

func (l *Listener) followPressure(c pressure.Config, full httplimits.Timeouts) (*pressure.Follower, error) {
	l.own.mu.Lock()
	defer l.own.mu.Unlock()
	switch {
	case l.streams.follows():
		return nil, errors.New("the listener follows a pressure already; stop that Follower first")
	case c.Policy.Name != "" || c.Policy.SetsLimit() || c.Phases != nil:
		return nil, errors.New("Config.Policy or Phases is set; set the Timeouts at full pressure instead")
	case full.MaxUnsent != 0:
		return nil, fmt.Errorf("MaxUnsent is %d at full pressure, but it does not follow pressure; leave it 0", full.MaxUnsent)
	case full.OnTimeout != nil || full.OnEnd != nil:
		return nil, errors.New("OnTimeout or OnEnd is set at full pressure; they are those of the listener")
	}
	rest := l.now.Load().timeouts
	if err := completeFull(settings(&full), settings(&rest)); err != nil {
		return nil, err
	}
	policies, _ := assignLimits(&full)
	c.Phases = map[*idle.Phase]idle.Policy{}
	for i, policy := range policies {
		// The limits of resetPending are of several settings, and short. Streams have a tracker
		// of their own.
		if policy.SetsLimit() && Phase(i) != resetPending && Phase(i) != stream {
			c.Phases[l.phases[i]] = policy
		}
	}
	t, ofStreams := l.tracker, policies[stream]
	if len(c.Phases) == 0 && ofStreams.SetsLimit() && l.streams.tracker != nil { // only StreamTotal is set
		t, c.Phases[l.streams.phase], ofStreams = l.streams.tracker, ofStreams, idle.Policy{}
	}
	if len(c.Phases) == 0 {
		return nil, errors.New("no field of the Timeouts at full pressure is set that applies to this server")
	}
	f, err := pressure.Follow(t, c)
	if err != nil {
		return nil, err
	}
	if err := l.streams.follow(f, ofStreams); err != nil {
		f.Stop()
		return nil, err
	}
	return f, nil
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
