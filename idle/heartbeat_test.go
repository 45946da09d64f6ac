package idle

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// A pinger notes when it is pinged.
type pinger struct {
	peer
	born  time.Time
	pings []time.Duration
	ping  func() error // nil: unanswered
}

func (p *pinger) Ping() error {
	p.pings = append(p.pings, time.Since(p.born))
	if p.ping != nil {
		return p.ping()
	}
	return nil
}

func (r *rig) pinged() *pinger {
	p := &pinger{born: time.Now()}
	r.track(&p.Conn, p)
	return p
}

var beats = Policy{Heartbeat: Heartbeat{Interval: 10 * time.Second, Timeout: 2 * time.Second, Misses: 2}}

// TestHeartbeatSequence has a peer that is silent from the beginning. What
// begins on a tick is late by one tick, and by the driver's slack.
func TestHeartbeatSequence(t *testing.T) {
	onBoth(t, beats, nil, func(r *rig) {
		p := r.pinged()
		r.wait(20 * time.Second)
		late := r.opts.Tick
		want := []time.Duration{10*time.Second + late, 12*time.Second + 2*late}
		for i := range want {
			want[i] += r.clock.Slack
		}
		if !slices.Equal(p.pings, want) {
			r.Errorf("pinged after %v, want %v", p.pings, want)
		}
		if died := 14*time.Second + 3*late + r.clock.Slack; p.at.Sub(p.born) != died || p.expired[0].Reason != ReasonHeartbeat {
			r.Errorf("timed out after %v by %v, want %v", p.at.Sub(p.born), p.expired, died)
		}
		if st := r.Stats(); st.Pings != 2 || st.Misses != 2 {
			r.Errorf("%+v", st)
		}
	})
}

// TestHeartbeatWithManyMisses pins how late a heartbeat is: by a tick for the
// interval and for each miss, as each counts from the end of the tick of the one
// before, and by the slack. Elapsed is all of it.
func TestHeartbeatWithManyMisses(t *testing.T) {
	const misses = 100
	policy := Policy{Heartbeat: Heartbeat{Interval: time.Second, Timeout: 50 * time.Millisecond, Misses: misses}}
	onBoth(t, policy, nil, func(r *rig) {
		r.wait(odd)
		p := r.pinged()
		r.wait(20 * time.Second)
		limit := time.Second + misses*50*time.Millisecond
		late := (misses+1)*r.opts.Tick + r.clock.Slack
		if took := p.at.Sub(p.born); len(p.expired) != 1 || took < limit || took > limit+late {
			r.Fatalf("timed out after %v by %v; want %v to %v", took, p.expired, limit, limit+late)
		}
		if e, took := p.expired[0].Elapsed, p.at.Sub(p.born); e > took || e < took-r.opts.Tick {
			r.Errorf("Elapsed is %v, and it had been silent for %v", e, took)
		}
	})
}

func TestAnyByteClearsTheMisses(t *testing.T) {
	onBoth(t, beats, nil, func(r *rig) {
		p := r.pinged()
		for range 5 {
			r.lives(&p.peer, 13*time.Second+odd) // a miss, and the second ping
			r.do(func() { p.Received(1) })
		}
		if len(p.pings) != 10 {
			r.Errorf("pinged %d times", len(p.pings))
		}
		r.do(func() { p.Sent(1) }) // no sign of life
		r.dies(&p.peer, time.Now(), 14*time.Second+2*r.opts.Tick, ReasonHeartbeat)
	})
}

func TestNoPingWhileBytesArrive(t *testing.T) {
	onBoth(t, beats, nil, func(r *rig) {
		p := r.pinged()
		for range 10 {
			r.lives(&p.peer, 9*time.Second+odd)
			r.do(p.Touch)
		}
		if len(p.pings) > 0 {
			r.Errorf("pinged after %v", p.pings)
		}
	})
}

// TestPingAfterAnAnswerIsInTime answers a ping at once when the Timeout is
// longer than the Interval: the next ping is due before the answer was.
func TestPingAfterAnAnswerIsInTime(t *testing.T) {
	onBoth(t, Policy{Heartbeat: Heartbeat{Interval: time.Second, Timeout: 10 * time.Second}}, nil, func(r *rig) {
		p := r.pinged()
		r.wait(1500 * time.Millisecond)
		r.do(func() { p.Received(1) })
		r.wait(time.Second + r.late())
		if len(p.pings) != 2 {
			r.Errorf("pinged after %v, answered after 1.5 s; want a second ping 1 s later", p.pings)
		}
	})
}

// TestBlockingPingIsAMiss blocks one peer's Ping, which must not delay another
// peer's, and is not called twice at once.
func TestBlockingPingIsAMiss(t *testing.T) {
	onDriver(t, beats, &Options{Shards: 1}, func(r *rig) {
		blocked := make(chan struct{})
		a, b := r.pinged(), r.pinged()
		a.ping = func() error { <-blocked; return nil }
		r.dies(&b.peer, b.born, 14*time.Second+2*r.opts.Tick, ReasonHeartbeat)
		if len(a.pings) != 1 || len(b.pings) != 2 || a.at != b.at || a.expired[0].Reason != ReasonHeartbeat {
			r.Errorf("pinged after %v and %v, timed out after %v", a.pings, b.pings, a.at.Sub(a.born))
		}
		close(blocked)
	})
}

func TestFailingPingIsAMiss(t *testing.T) {
	onBoth(t, beats, nil, func(r *rig) {
		p := r.pinged()
		p.ping = func() error { return errors.New("broken pipe") }
		r.dies(&p.peer, p.born, 14*time.Second+2*r.opts.Tick, ReasonHeartbeat)
	})
}

// TestPassiveHeartbeat is MQTT's rule: one and a half times the keepalive.
func TestPassiveHeartbeat(t *testing.T) {
	policy := Policy{Heartbeat: Heartbeat{Interval: 10 * time.Second, Timeout: 5 * time.Second, Passive: true}}
	onBoth(t, policy, nil, func(r *rig) {
		p := r.peer()
		r.lives(p, 14*time.Second+odd)
		r.do(p.Beat)
		since := time.Now()
		r.lives(p, 14*time.Second)
		r.do(func() { p.Received(1) }) // no beat
		r.dies(p, since, 15*time.Second, ReasonHeartbeat)
		if st := r.Stats(); st.Misses != 0 {
			r.Errorf("%d misses, but nobody was pinged", st.Misses)
		}
	})
}

func TestPassiveHeartbeatWithMisses(t *testing.T) {
	policy := Policy{Heartbeat: Heartbeat{Interval: 10 * time.Second, Misses: 3, Passive: true}}
	onBoth(t, policy, nil, func(r *rig) {
		p := r.peer()
		r.lives(p, 29*time.Second)
		r.do(p.Beat)
		r.dies(p, time.Now(), 30*time.Second, ReasonHeartbeat)
	})
}

func TestTrackNeedsAPinger(t *testing.T) {
	onBoth(t, beats, nil, func(r *rig) {
		p := &peer{}
		if err := r.tryTrack(&p.Conn, p); err == nil || p.Live() {
			r.Errorf("tracked an owner that cannot ping: %v", err)
		}
	})
}

// TestOneMissIsNotStale has a miss come at the very tick at which another limit
// passes, which the owner averts. That is no reason to skip the misses left.
func TestOneMissIsNotStale(t *testing.T) {
	policy := Policy{
		ReadTimeout: 12*time.Second + 10*time.Millisecond,
		Heartbeat:   Heartbeat{Interval: 10 * time.Second, Timeout: 2 * time.Second, Misses: 3},
	}
	onBoth(t, policy, nil, func(r *rig) {
		p := &keepingPinger{}
		p.born = time.Now()
		r.track(&p.Conn, p)
		r.lives(&p.peer, 14*time.Second)
		r.dies(&p.peer, p.born, 16*time.Second+3*r.opts.Tick, ReasonHeartbeat)
		if len(p.pings) != 3 || r.Stats().Misses != 3 {
			r.Errorf("pinged after %v: %+v", p.pings, r.Stats())
		}
	})
}

// A keepingPinger keeps what does not read.
type keepingPinger struct{ pinger }

func (*keepingPinger) OnTimeout(err *TimeoutError) bool { return err.Reason == ReasonRead }
