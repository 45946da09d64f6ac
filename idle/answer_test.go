package idle

import (
	"runtime"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/deadlines"
)

// TestStopBesideOnTimeout drains with a Stop while an OnTimeout runs for an hour.
func TestStopBesideOnTimeout(t *testing.T) {
	for _, keep := range []bool{false, true} {
		onDriver(t, Policy{IdleTimeout: time.Minute}, nil, func(r *rig) {
			k := r.keeper(func(*TimeoutError) bool { time.Sleep(time.Hour); return keep })
			r.wait(time.Minute + r.late())
			if len(k.asked) != 1 {
				r.Fatal("OnTimeout was not called")
			}
			o := r.mustDrain(Drain{ForceAfter: 5 * time.Second})
			r.finishesIn(o, 6*time.Second)
			if p := o.Progress(); p.Met != 1 || p.Ended != 1 || len(k.expired) != 1 || k.expired[0].Reason != ReasonDrain {
				r.Errorf("%+v; expired %v", p, k.expired)
			}
			r.wait(2 * time.Hour)
			if st := r.Stats(); st.Live != 0 || st.Drained != 1 || len(k.expired) != 1 {
				r.Errorf("%+v; expired %v", st, k.expired)
			}
		})
	}
}

// TestGoexit has callbacks end their goroutine, as a FailNow of a test does.
func TestGoexit(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		k := r.keeper(func(*TimeoutError) bool { runtime.Goexit(); return true })
		r.wait(time.Second + r.late())
		if len(k.expired) != 1 || r.Stats().Live != 0 {
			r.Errorf("expired %v", k.expired)
		}
	})
	onDriver(t, beats, nil, func(r *rig) {
		p := r.pinged()
		p.ping = func() error { runtime.Goexit(); return nil }
		r.wait(time.Minute)
		if len(p.pings) < 2 {
			r.Errorf("pinged at %v", p.pings)
		}
	})
}

// TestAnswerAfterClose has an OnTimeout return when the tracker is closed. The connection was
// handed back.
func TestAnswerAfterClose(t *testing.T) {
	for _, keep := range []bool{false, true} {
		onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
			k := r.keeper(func(*TimeoutError) bool { time.Sleep(time.Minute); return keep })
			r.wait(time.Second + r.late())
			live, err := r.Tracker.Close()
			if len(live) != 1 || err == nil || k.Live() {
				r.Errorf("handed back: %v, %v", live, err)
			}
			r.wait(time.Hour)
			if st := r.Stats(); len(k.expired) != 0 || st.Closed != 1 || st.Live != 0 {
				r.Errorf("expired %v, %+v", k.expired, st)
			}
		})
	}
}

// takeDue takes c, a limit of which is a second, out of the wheel before that passes, as a pass does, and
// waits until it has passed.
func (r *rig) takeDue(c *Conn) {
	r.wait(990 * time.Millisecond)
	c.shard.lock.Lock()
	c.shard.wheel.Cancel(&c.timer)
	c.shard.lock.Unlock()
	r.wait(time.Second)
}

// TestReplaceBesideVerdict replaces a policy when a pass has decided that a limit has passed,
// and before it ends the connection.
func TestReplaceBesideVerdict(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		p := r.peer()
		s := p.shard
		r.takeDue(&p.Conn)
		p.state.Or(ending)
		v, due := s.decide(&p.Conn)
		if !due {
			r.Fatal("not due")
		}
		if err := r.SetPolicy(Policy{IdleTimeout: time.Hour}); err != nil {
			r.Fatal(err)
		}
		s.timeOut(&p.Conn, v)
		r.lives(p, 50*time.Minute)
		r.wait(11 * time.Minute)
		if len(p.expired) != 1 {
			r.Errorf("expired %v", p.expired)
		}
	})
}

// TestEnterBesidePing enters a phase with a rarer heartbeat when a pass has decided to ping, and
// before it does. The new phase doesn't await the answer.
func TestEnterBesidePing(t *testing.T) {
	onDriver(t, Policy{Heartbeat: Heartbeat{Interval: time.Second, Timeout: time.Second, Misses: 1}}, nil, func(r *rig) {
		rare := r.phaseOf(Policy{Heartbeat: Heartbeat{Interval: time.Hour, Timeout: time.Second, Misses: 1}})
		p := r.pinged()
		s := p.shard
		r.takeDue(&p.Conn)
		v, due := s.decide(&p.Conn)
		if !due || v.What != deadlines.Ping {
			r.Fatalf("%+v is due", v)
		}
		p.Enter(rare)
		r.wait(2 * r.opts.Tick)
		s.ping(&p.Conn, v)
		r.lives(&p.peer, 50*time.Minute)
		r.wait(11 * time.Minute)
		if len(p.pings) != 2 || len(p.expired) != 1 {
			r.Errorf("pinged after %v, expired %v", p.pings, p.expired)
		}
	})
}
