package idle

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestUseAfterTheEndIsHarmless uses connections that have ended, and a tracker that is closed.
func TestUseAfterTheEndIsHarmless(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second, MinReadRate: Rate{1, time.Minute}}, nil, func(r *rig) {
		closed, expired := r.peer(), r.peer()
		if zero := new(Conn); zero.Stop() || zero.Live() {
			r.Error("a zero Conn is live")
		}
		r.do(func() { closed.Stop() })
		r.dies(expired, time.Now(), time.Second, ReasonIdle)
		r.closeShard()
		r.Tracker.Close()
		for _, c := range []*Conn{&closed.Conn, &expired.Conn} {
			c.Touch()
			c.Received(5)
			c.Sent(5)
			c.PauseRead()
			c.AwaitRead()
			c.AwaitWrite()
			c.PauseWrite()
			c.RestartWrite()
			c.Beat()
			c.Enter(r.phase)
			c.End("late")
			if c.Live() || c.Stop() {
				r.Error("came to life again")
			}
		}
		r.wantEnded(2)
		r.wait(time.Minute)
		if len(closed.expired) != 0 || len(expired.expired) != 1 {
			r.Errorf("timed out: %v, %v", closed.expired, expired.expired)
		}
	})
}

// TestCloseInACallback calls Close in each callback. It must return, with an error
// that tells of the callback that it has waited for.
func TestCloseInACallback(t *testing.T) {
	policy := Policy{IdleTimeout: 5 * time.Second, ExplicitUse: true, MaxAge: 3 * time.Second, MaxAgeGrace: time.Hour,
		Heartbeat: Heartbeat{Interval: 2 * time.Second, Timeout: time.Hour}}
	for _, in := range []string{"Ping", "OnDrain", "Probe", "OnTimeout", "Expire"} {
		t.Run(in, func(t *testing.T) {
			onBoth(t, policy, nil, func(r *rig) {
				var once sync.Once
				var err, ofShard error
				r.with(calling(func(name string) {
					if name != in {
						return
					}
					once.Do(func() {
						if _, err = r.Tracker.Close(); r.shard != nil {
							_, ofShard = r.shard.Close()
						}
					})
				}))
				r.wait(time.Minute)
				if r.loop == nil && (err == nil || !strings.Contains(err.Error(), "one of them has called Close")) {
					r.Errorf("Close in %s: %v", in, err)
				}
				if r.loop != nil && ofShard != errInPass {
					r.Errorf("Close of the shard in %s: %v", in, ofShard)
				}
				r.closeShard()
				if st := r.Stats(); st.Live != 0 {
					r.Errorf("%+v", st)
				}
			})
		})
	}
}

// TestCloseWaitsForCallbacks has a Ping that ends in time.
func TestCloseWaitsForCallbacks(t *testing.T) {
	onDriver(t, beats, nil, func(r *rig) {
		p := r.pinged()
		ended := false
		p.ping = func() error { time.Sleep(patience / 2); ended = true; return nil }
		r.wait(10*time.Second + r.late())
		live, err := r.Tracker.Close()
		if !ended || err != nil || !slices.Equal(live, []any{p}) {
			r.Errorf("Close = %v, %v; the Ping has ended: %v", live, err, ended)
		}
	})
}

// TestCloseDoesNotWaitForEver has a Ping and a Keep that take longer than
// Close waits.
func TestCloseDoesNotWaitForEver(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: 10 * time.Second}, nil, func(r *rig) {
		k := r.keeper(func(*TimeoutError) bool { time.Sleep(time.Hour); return false })
		r.wait(11 * time.Second)
		begun := time.Now()
		live, err := r.Tracker.Close()
		if took := time.Since(begun); took > patience {
			r.Errorf("Close waited for %v", took)
		}
		if len(live) != 1 || err == nil || !strings.Contains(err.Error(), "callbacks still running after 1s: 1") {
			r.Errorf("Close = %v, %v; want an error about 1 callback", live, err)
		}
		r.wait(2 * time.Hour)
		if st := r.Stats(); st.Live != 0 || st.Tracked != 1 {
			r.Errorf("%+v; timed out: %v", st, k.expired)
		}
	})
}

// TestTrackAfterClose tracks a Conn that was handed back. The simulation tracks those that are tracked, and that have ended.
func TestTrackAfterClose(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		back := r.peer()
		r.closeShard()
		r.Tracker.Close()
		if back.Live() || back.Stop() {
			r.Error("handed back, and still tracked")
		}
		tr := newTracker(r, Policy{IdleTimeout: time.Second}, nil)
		if err := tr.Track(&back.Conn, back, hooksOf(back)); err != ErrTracked {
			r.Errorf("a Conn that was handed back is tracked again: %v", err)
		}
	})
}

// TestPassLetsGoOfWhatItHasSettled looks at what a pass leaves behind.
func TestPassLetsGoOfWhatItHasSettled(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, &Options{Shards: 1}, func(r *rig) {
		for range 3 * jobsPerLock {
			r.peer()
		}
		r.wait(time.Minute)
		jobs := r.own[0].jobs
		for _, c := range jobs[:cap(jobs)] {
			if c != nil {
				r.Errorf("it holds %v", c.owner)
			}
		}
	})
}

// TestStopInOnEnd stops a connection in its OnEnd. Expire follows all the same.
func TestStopInOnEnd(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		p, stopped := &peer{}, false
		p.onEnd = func() { stopped = p.Stop() }
		if r.dies(r.with(p), time.Now(), time.Second, ReasonIdle); stopped {
			r.Error("Stop = true after a timeout")
		}
	})
}

// closings is how often a test closes a tracker while its driver is busy. Afterwards the driver may
// run a pass first, or see that the tracker is closed.
const closings = 10

// TestCloseCarriesOutEnds closes a tracker right after Conn.End. The connection ends for that reason,
// and isn't handed back, because its owner relies on the end.
func TestCloseCarriesOutEnds(t *testing.T) {
	check := func(r *rig) {
		var farewell time.Time // when OnEnd had returned
		stays, leaves := r.peer(), r.with(&peer{onEnd: func() { time.Sleep(100 * time.Millisecond); farewell = time.Now() }})
		other := r.with(&peer{onExpire: func() { time.Sleep(20 * time.Millisecond) }})
		r.wait(time.Second)
		if r.loop == nil {
			other.End("a pass begins, and takes 20 ms")
		} else {
			r.do(func() { other.Stop() })
		}
		r.wait(10 * time.Millisecond)
		var live []any
		r.do(func() {
			leaves.End("why")
			if r.shard != nil {
				live, _ = r.shard.Close()
			}
		})
		own, err := r.Tracker.Close()
		if live = append(live, own...); err != nil || !slices.Equal(live, []any{stays}) {
			r.Errorf("%d are handed back, want 1: %v", len(live), err)
		}
		synctest.Wait()
		if x := leaves.expired; len(x) != 1 || x[0].Reason != ReasonShed || x[0].Cause != "why" {
			r.Errorf("expired: %v", x)
		}
		if farewell.IsZero() || leaves.at.Before(farewell) {
			r.Errorf("expired at %v, OnEnd has returned at %v", leaves.at, farewell)
		}
		if stays.End("late"); len(stays.expired) > 0 {
			r.Error("a connection that was handed back is ended")
		}
		if st := r.Stats(); st.Live != 0 || st.Closed+st.HandedBack+st.Shed != 3 {
			r.Errorf("%+v", st)
		}
	}
	for range closings {
		inBubble(t, Policy{IdleTimeout: time.Hour}, nil, false, check)
		inBubble(t, Policy{IdleTimeout: time.Hour}, nil, true, check)
	}
}

// TestCloseBesideEnds closes a tracker while connections are being ended by a drain or in a visit. Each
// is either ended or handed back.
func TestCloseBesideEnds(t *testing.T) {
	drain := func(d Drain) func(*rig) {
		return func(r *rig) {
			o := r.mustDrain(d)
			go func() { <-o.Done() }() // it ends with the bubble
		}
	}
	for name, begin := range map[string]func(*rig){
		"drain":      drain(Drain{}),
		"over time":  drain(Drain{Duration: 100 * time.Millisecond}),
		"forced":     drain(Drain{ForceAfter: time.Millisecond}),
		"EndIfIdle":  func(r *rig) { go func() { _ = r.Visit(r.Context(), func(i Info) { i.EndIfIdle("test") }) }() },
		"by a visit": func(r *rig) { go func() { _ = r.Visit(r.Context(), func(i Info) { i.End("test") }) }() },
	} {
		check := func(r *rig, delay time.Duration) {
			all := make([]*peer, 50)
			for i := range all { // so slow that others can do something in the middle of a pass
				all[i] = r.with(&peer{onExpire: func() { time.Sleep(2 * time.Millisecond) }})
			}
			r.wait(time.Second)
			begin(r)
			time.Sleep(delay)
			live := r.closeShard()
			own, err := r.Tracker.Close()
			live = append(live, own...)
			synctest.Wait()
			ended := 0
			for _, p := range all {
				back := slices.Contains(live, any(p))
				if len(p.expired) > 0 == back || len(p.expired) > 1 || p.Live() {
					r.Errorf("handed back: %v; expired %d times", back, len(p.expired))
				}
				ended += len(p.expired)
			}
			st := r.Stats()
			if err != nil || st.Live != 0 || st.HandedBack != uint64(len(live)) || st.Drained+st.Shed != uint64(ended) {
				r.Errorf("%v; %d ended, %d handed back; %+v", err, ended, len(live), st)
			}
		}
		t.Run(name, func(t *testing.T) {
			for i := range closings {
				for _, looped := range []bool{false, true} {
					inBubble(t, Policy{IdleTimeout: time.Hour}, nil, looped, func(r *rig) { check(r, time.Duration(i)*5*time.Millisecond) })
				}
			}
		})
	}
}
