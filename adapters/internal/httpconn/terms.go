package httpconn

import (
	"fmt"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// terms are the result of a listener's Timeouts. They are immutable; SetTimeouts replaces them.
type terms struct {
	given     httplimits.Timeouts
	timeouts  httplimits.Timeouts // given, but complete: zero is no limit
	policies  [numPhases]idle.Policy
	settingOf map[limitKey]string // names the setting behind each limit
}

// newTerms returns the terms for t, or an error that names an invalid field.
func newTerms(t httplimits.Timeouts) (*terms, error) {
	given := t
	if err := complete(&t, ""); err != nil {
		return nil, err
	}
	if h := t.Hijacked.Heartbeat; h.Interval > 0 && !h.Passive {
		return nil, fmt.Errorf("Hijacked.Heartbeat is active (every %v), but there is no function that pings; use Watch, which takes one", h.Interval)
	}
	policies, settingOf := assignLimits(&t)
	return &terms{given, t, policies, settingOf}, nil
}

// setting returns the name of the setting behind a limit, for [idle.NewPhased]. It is "" for
// policies that the user has made.
func (l *Listener) setting(phase string, r idle.Reason) string {
	return l.now.Load().settingOf[limitKey{phase, r}]
}

// makePhases makes the phases for the terms. It fails if a limit does not fit the
// tracker's tick, or has no meaning for the server.
func (l *Listener) makePhases(to *terms) (all [numPhases]*idle.Phase, err error) {
	if d := to.given.StreamTimeout; l.http2 == NoHTTP2 && d != 0 && d != httplimits.Off {
		return all, fmt.Errorf("StreamTimeout is %v, but fasthttp does not speak HTTP/2; leave it 0", d)
	}
	if err := checkDurations(&to.timeouts, l.options.Tick); err != nil {
		return all, err
	}
	for p, policy := range to.policies {
		if all[p], err = l.trackerOf(Phase(p)).Phase(policy); err != nil {
			return all, named("Hijacked.", err) // the others have been checked
		}
	}
	return all, nil
}

// trackerOf returns the tracker of what is in phase p.
func (l *Listener) trackerOf(p Phase) *idle.Tracker {
	if p == stream && l.http2 != NoHTTP2 {
		return l.streams.tracker
	}
	return l.tracker
}

// SetTimeouts replaces the Timeouts, also for connections that are open. Package
// httplimits has the details. If t is refused, nothing is changed.
func (l *Listener) SetTimeouts(t httplimits.Timeouts) error {
	if err := l.setTimeouts(t); err != nil {
		return fmt.Errorf("%s: %w", l.pkg, err)
	}
	return nil
}

func (l *Listener) setTimeouts(t httplimits.Timeouts) error {
	if err := l.checkIdle(&t.Idle); err != nil {
		return err
	}
	next, err := newTerms(t)
	if err != nil {
		return err
	}
	l.own.mu.Lock()
	defer l.own.mu.Unlock()
	was := &l.now.Load().timeouts
	if t.OnEnd == nil {
		next.timeouts.OnEnd = was.OnEnd
	}
	switch {
	case t.OnTimeout == nil:
		next.timeouts.OnTimeout = was.OnTimeout
	case was.OnTimeout == nil:
		return fmt.Errorf("OnTimeout is set, but the listener was made without one; give one to Wrap, or leave it nil")
	}
	if _, err := l.makePhases(next); err != nil { // so that none is replaced if one cannot be
		return err
	}
	for p, policy := range next.policies {
		if err := l.phases[p].SetPolicy(policy); err != nil { // the tracker is closed
			return named("", err)
		}
	}
	for own, phase := range l.own.made {
		policy, err := l.ownPolicy(next, own)
		if err == nil {
			err = phase.SetPolicy(policy)
		}
		if err != nil {
			return named("", err)
		}
	}
	l.now.Store(next)
	return nil
}

// checkIdle returns an error if o differs from the tracker's options.
func (l *Listener) checkIdle(o *idle.Options) error {
	refuse := func(field string, value, was any) error {
		return fmt.Errorf("%s is %v, but the listener was made with %v, and its tracker stays; leave it 0", "Idle."+field, value, was)
	}
	switch was := &l.options; {
	case o.Tick != 0 && o.Tick != was.Tick:
		return refuse("Tick", o.Tick, was.Tick)
	case o.Shards != 0 && o.Shards != was.Shards:
		return refuse("Shards", o.Shards, was.Shards)
	case o.Budget != 0 && o.Budget != was.Budget:
		return refuse("Budget", o.Budget, was.Budget)
	case o.Logger != nil && o.Logger != was.Logger:
		return refuse("Logger", "another one", "its own")
	}
	return nil
}

// LimitsHandler reports whether the listener of c has a HandlerTimeout at present.
func (c *Conn) LimitsHandler() bool { return c.listener.now.Load().timeouts.HandlerTimeout > 0 }
