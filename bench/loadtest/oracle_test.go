//go:build proof

package main

import (
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A story is what happens to one connection, told to the oracle.
type story struct {
	*oracle
	peers []peer
}

func (s *story) peer() *peer {
	return &s.peers[0]
}

const ms = int64(time.Millisecond)

func testConfig() config {
	return config{
		limits: limits{Idle: time.Second, Heartbeat: 200 * time.Millisecond, Tick: 10 * time.Millisecond},
		conns:  1, duration: 10 * time.Second, active: 0.5, seed: 1,
	}
}

func newStory(k kind) *story {
	s := &story{newOracle(testConfig().limits), make([]peer, 1)}
	s.peer().life = life{kind: k}
	s.peer().begin(1*ms, open)
	return s
}

func (s *story) touch(at int64) { s.touched(s.peer(), at*ms, at*ms+1) }

func (s *story) expire(at int64, r idle.Reason) { s.expired(s.peer(), at*ms, r) }

func (s *story) end(at int64) judgement {
	return s.judge(at*ms, s.peers)
}

func TestOracle(t *testing.T) {
	for _, c := range []struct {
		name string
		kind kind
		tell func(s *story)
		want judgement
	}{
		{"closed when due", silent, func(s *story) {
			s.touch(500)
			s.expire(1500, idle.ReasonIdle)
		}, judgement{Closed: 1}},
		{"closed a millisecond early", silent, func(s *story) {
			s.touch(500)
			s.expire(1499, idle.ReasonIdle)
		}, judgement{Closed: 1, Early: 1, EarliestMS: 1}},
		{"closed for another reason", silent, func(s *story) {
			s.expire(1500, idle.ReasonHeartbeat)
		}, judgement{Closed: 1, WrongReason: 1}},
		{"a beat that stopped", beater, func(s *story) {
			s.touch(500)
			s.expire(800, idle.ReasonHeartbeat)
		}, judgement{Closed: 1}},
		{"closed twice", silent, func(s *story) {
			s.expire(1500, idle.ReasonIdle)
			s.expire(1600, idle.ReasonIdle)
		}, judgement{Closed: 2, Early: 1}},
		{"closed after it had left", leaver, func(s *story) {
			s.left(s.peer())
			s.expire(5000, idle.ReasonIdle)
		}, judgement{Closed: 1, Early: 1}},
		{"left", leaver, func(s *story) {
			s.left(s.peer())
		}, judgement{Left: 1}},
		{"left, far away, but too late", leaver, func(s *story) {
			s.limits.Remote = true
			s.left(s.peer())
			s.expire(5000, idle.ReasonIdle)
		}, judgement{Closed: 1, Draws: 1}},
		{"an active one that really was silent", active, func(s *story) {
			s.expire(1500, idle.ReasonIdle)
		}, judgement{Closed: 1}},
		{"closed while it came back too late", active, func(s *story) {
			s.touch(1200)
			s.expire(1201, idle.ReasonIdle)
		}, judgement{Closed: 1, Draws: 1}},
		{"closed though it had come back in time since", active, func(s *story) {
			s.touch(1200)
			s.touch(1300)
			s.expire(1301, idle.ReasonIdle)
		}, judgement{Closed: 1, Early: 1, EarliestMS: 999}},
		{"an activity that took too long to come in time", active, func(s *story) {
			s.touched(s.peer(), 900*ms, 1100*ms)
			s.expire(1101, idle.ReasonIdle)
		}, judgement{Closed: 1, Draws: 1}},
		{"closed before it was under its own limit", beater, func(s *story) {
			s.peer().state.Store(settling)
			s.expire(1500, idle.ReasonIdle)
		}, judgement{Closed: 1}},
		{"missed", silent, func(s *story) {
			s.touch(1000)
		}, judgement{Missed: 1}},
		{"due, but only just", silent, func(s *story) {
			s.touch(8500)
		}, judgement{Live: 1}},
		{"not due", active, func(s *story) {
			s.touch(9500)
		}, judgement{Live: 1}},
		{"never begun", active, func(s *story) {
			s.peer().state.Store(unborn)
		}, judgement{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStory(c.kind)
			c.tell(s)
			got := s.end(10_000)
			c.want.Expected = c.want.Closed - c.want.Early + c.want.Missed
			if got != c.want {
				t.Errorf("judged %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestOracleLateness(t *testing.T) {
	s := newStory(silent)
	s.touch(500)
	s.expire(1517, idle.ReasonIdle)
	if got := s.late.Most().Round(time.Microsecond); got != 17*time.Millisecond {
		t.Errorf("late by %v, want 17ms", got)
	}
}
