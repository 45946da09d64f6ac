package main

import (
	"cmp"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/idle"
)

// limits are those of the connections, and of the tracker. The server process is
// sent them.
type limits struct {
	Idle      time.Duration
	Rest      time.Duration // what connections begin with if the limit is changed later; 0: Idle
	Heartbeat time.Duration // 0: none
	Tick      time.Duration
	Shards    int  // 0: the tracker's default
	Remote    bool // the tracker is the server's
}

// pongAfter is how long the answer to a ping, or an overdue beat, may take.
func (l *limits) pongAfter() time.Duration { return l.Heartbeat / 2 }

// staleAfter is how long a connection under a heartbeat may be silent.
func (l *limits) staleAfter() time.Duration { return l.Heartbeat + l.pongAfter() }

// longest is the longest limit of any connection.
func (l *limits) longest() time.Duration { return max(l.Idle, l.staleAfter()) }

// sweepTime is how often every connection gets its chance to be active: four
// times within its limit.
func (l *limits) sweepTime() time.Duration {
	shortest := l.Idle
	if l.Heartbeat > 0 {
		shortest = min(shortest, l.staleAfter())
	}
	return shortest / 4
}

// A limit is what a silent connection is to be closed for, and after how long.
type limit struct {
	after  time.Duration
	reason idle.Reason
}

// of returns the limit of a kind.
func (l *limits) of(k kind) limit {
	if k.beats() {
		return limit{l.staleAfter(), idle.ReasonHeartbeat}
	}
	return limit{l.Idle, idle.ReasonIdle}
}

// policy is what all connections begin under.
func (l *limits) policy() idle.Policy {
	return idle.Policy{Name: "open", IdleTimeout: cmp.Or(l.Rest, l.Idle)}
}

// phases returns those for connections that beat, and for those that are pinged.
// Beats are no use, so beating ones have no IdleTimeout.
func (l *limits) phases(t *idle.Tracker) (beats, pings *idle.Phase, err error) {
	beat, ping := idle.Policy{Name: "beating"}, idle.Policy{Name: "pinged"} // of nobody, without heartbeats
	if l.Heartbeat > 0 {
		ping.Heartbeat = idle.Heartbeat{Interval: l.Heartbeat, Timeout: l.pongAfter(), CountsAsUse: true}
		beat.Heartbeat = idle.Heartbeat{Interval: l.Heartbeat, Timeout: l.pongAfter(), Passive: true}
	}
	if beats, err = t.Phase(beat); err == nil {
		pings, err = t.Phase(ping)
	}
	return beats, pings, err
}

// options are the tracker's; pauses, if not nil, learns how long passes take.
func (l *limits) options(pauses *spread.Spread) *idle.Options {
	o := &idle.Options{Tick: l.Tick, Shards: l.Shards}
	if pauses != nil {
		o.OnPass = pauses.Add
	}
	return o
}
