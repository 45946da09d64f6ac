package idle

import (
	"slices"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

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
		} else if e := p.expired[0].Elapsed; e > died || e < died-r.opts.Tick {
			r.Errorf("Elapsed is %v, and it had been silent for %v", e, died)
		}
		if st := r.Stats(); st.Pings != 2 || st.Misses != 2 {
			r.Errorf("%+v", st)
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
		p := r.keeper(func(err *TimeoutError) bool { return err.Reason == ReasonRead })
		r.lives(p, 14*time.Second)
		r.dies(p, p.born, 16*time.Second+3*r.opts.Tick, ReasonHeartbeat)
		if len(p.pings) != 3 || r.Stats().Misses != 3 {
			r.Errorf("pinged after %v: %+v", p.pings, r.Stats())
		}
	})
}

// TestPingTakesBackNoPhase has a phase begin a tick after a pass has looked at the
// clock for the stamp of a ping.
func TestPingTakesBackNoPhase(t *testing.T) {
	onDriver(t, beats, nil, func(r *rig) {
		p := r.pinged()
		r.lives(p, odd)
		next := clock.StampOf(r.clock.Now() + 1)
		p.Conn.pinged.Store(next)
		r.own[0].ping(&p.Conn, decision{stamp: p.shard.stamp()})
		if got := p.pinged.Load(); got != next {
			r.Errorf("the phase that began at %d has begun at %d", next.Bits(), got.Bits())
		}
	})
}
