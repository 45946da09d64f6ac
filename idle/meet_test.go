package idle

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"
)

// This file has tests of two features that meet.

// TestLongerHeartbeatAfterAPing replaces a heartbeat by a longer one, when a ping waits for its answer. The connection ends
// when the longer one has passed.
func TestLongerHeartbeatAfterAPing(t *testing.T) {
	beat := func(interval time.Duration, misses int) Policy {
		return Policy{Heartbeat: Heartbeat{Interval: interval, Timeout: 10 * time.Second, Misses: misses}}
	}
	for _, misses := range []int{1, 3} {
		onBoth(t, beat(time.Second, 1), nil, func(r *rig) {
			k := r.keeper(func(*TimeoutError) bool { return false })
			born, longer := time.Now(), beat(30*time.Second, misses)
			r.wait(2 * time.Second)
			check(r, r.SetPolicy(longer))
			r.wait(2 * time.Minute)
			limit := longer.Heartbeat.limit()
			if took := k.at.Sub(born); len(k.expired) != 1 || took < limit || took > limit+time.Duration(misses+1)*r.late() || k.expired[0].Elapsed < limit {
				r.Errorf("after %v: %v", took, k.expired)
			}
		})
	}
}

// TestAnswerAfterALongerHeartbeat has the ping be answered after all. The next one comes when the longer Interval has passed
// since, and the end when the Heartbeat has.
func TestAnswerAfterALongerHeartbeat(t *testing.T) {
	beat := func(interval time.Duration) Policy {
		return Policy{Heartbeat: Heartbeat{Interval: interval, Timeout: 20 * time.Second}}
	}
	onBoth(t, beat(time.Second), nil, func(r *rig) {
		p := r.pinged()
		r.wait(2 * time.Second)
		longer := beat(30 * time.Second)
		check(r, r.SetPolicy(longer))
		r.wait(time.Second)
		r.do(p.Touch)
		answered, limit := time.Now(), longer.Heartbeat.limit()
		r.wait(2 * time.Minute)
		if took := p.at.Sub(answered); len(p.expired) != 1 || took < limit || took > limit+2*r.late() {
			r.Errorf("ended after %v: %v", took, p.expired)
		}
	})
}

// TestEvictionsInADrain lets newcomers in while a drain has given each connection its turn. An eviction takes some before
// their turn, without OnDrain, and one whose CloseDelay runs. The drain counts these as gone, and ends all others, the
// newcomers too. A connection whose OnDrain is running is spared, and the newcomer is refused.
func TestEvictionsInADrain(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		all := r.guests(8)
		r.mustHold(Capacity{MaxConns: 8})
		d := r.mustDrain(Drain{Duration: 8 * time.Minute, CloseDelay: time.Minute})
		r.wait(90 * time.Second) // the first has been told, and its delay is over or runs
		newcomers := []*peer{r.peer(), r.peer(), r.peer()}
		r.wait(time.Second)
		st := r.Stats()
		if st.Evicted == 0 || st.Evicted+st.Drained != 3 || st.Live != 8 {
			r.Fatalf("%+v", st)
		}
		r.await(d)
		evicted := uint64(0)
		for _, g := range append(all, newcomers...) {
			if len(g.expired) != 1 {
				r.Fatalf("guest %d: %v", g.n, g.expired)
			}
			if g.expired[0].Reason == ReasonEvict {
				evicted++
			}
		}
		st = r.Stats()
		if evicted != st.Evicted || st.Evicted+st.Drained != 11 || d.Left() != 0 || d.gone.Load() != int64(evicted) || d.ended.Load() != int64(st.Drained) {
			r.Errorf("%d evicted; gone %d, ended %d, left %d: %+v", evicted, d.gone.Load(), d.ended.Load(), d.Left(), st)
		}
	})
	onDriver(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		told := make(chan struct{})
		asked := r.with(&peer{onDrain: func() { <-told }})
		r.mustHold(Capacity{MaxConns: 1})
		d := r.mustDrain(Drain{})
		r.wait(time.Second)
		if err := r.tryTrack(new(Conn), &peer{}); err != ErrFull || !asked.Live() {
			r.Errorf("beside an OnDrain that runs: %v, live %v", err, asked.Live())
		}
		close(told)
		r.await(d)
		if len(asked.expired) != 1 || asked.expired[0].Reason != ReasonDrain {
			r.Errorf("%v", asked.expired)
		}
	})
}

// TestVisitWhileOnTimeoutRuns asks whether a connection is busy while its OnTimeout runs.
func TestVisitWhileOnTimeoutRuns(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		r.keeper(func(*TimeoutError) bool { time.Sleep(time.Minute); return true })
		r.wait(2 * time.Second)
		visited := 0
		err := r.Visit(context.Background(), func(i Info) {
			if visited++; !i.Busy {
				r.Errorf("%+v", i)
			}
		})
		if err != nil || visited != 1 {
			r.Error(err, visited)
		}
		r.wait(time.Minute)
	})
}

// TestMaxAgeInADrain has MaxAge pass between a drain's OnDrain and its end. That end doesn't come later.
func TestMaxAgeInADrain(t *testing.T) {
	onBoth(t, Policy{MaxAge: 10 * time.Second, MaxAgeGrace: time.Hour}, nil, func(r *rig) {
		d := r.peer()
		r.wait(6 * time.Second)
		r.mustDrain(Drain{CloseDelay: 5 * time.Second})
		r.wait(20 * time.Second)
		if len(d.expired) != 1 || d.expired[0].Reason != ReasonDrain || d.at.Sub(d.drained[0]) < 5*time.Second || d.at.Sub(d.drained[0]) > 5*time.Second+r.late() {
			r.Errorf("asked at %v, ended at %v: %v", d.drained, d.at, d.expired)
		}
	})
}

// TestCancelInAPass cancels a drain in the pass in which its ForceAfter has passed, in Expire of the first connection. No other one
// ends then, whether it's busy or its OnTimeout is running, and none is looked at all the time.
func TestCancelInAPass(t *testing.T) {
	onDriver(t, Policy{NoInterrupt: true, IdleTimeout: time.Hour}, &Options{Shards: 1}, func(r *rig) {
		var d *Draining
		conns := make([]Conn, 4)
		h := &Hooks{
			Expire:    func(any, *TimeoutError) { d.Cancel() },
			OnTimeout: func(any, *TimeoutError) bool { time.Sleep(time.Minute); return true },
		}
		for i := range conns {
			check(r, r.Track(&conns[i], i, h))
			if i%2 == 0 {
				conns[i].Enter(r.phaseOf(Policy{IdleTimeout: time.Second}))
			}
		}
		r.wait(2 * time.Second)
		d = r.mustDrain(Drain{ForceAfter: 5 * time.Second})
		r.wait(10 * time.Second)
		if ended := 4 - r.live(); ended != 1 {
			r.Errorf("%d have ended, want one", ended)
		}
		was := r.Stats().Checks
		r.wait(10 * time.Second)
		if n := r.Stats().Checks - was; n > 10 {
			r.Errorf("%d checks in 10 s", n)
		}
		for i := range conns {
			conns[i].Stop()
		}
		r.wait(time.Minute)
	})
}

// TestCancelInProbe cancels a drain while it asks whether it may end a connection. It may not.
func TestCancelInProbe(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		var d *Draining
		p := r.prober(func() SocketState { d.Cancel(); return SocketState{} })
		d = r.mustDrain(Drain{})
		r.wait(time.Minute)
		if st := p.state.Load(); st != live || p.probes != 1 || r.Draining() != nil {
			r.Errorf("the state is %#x, asked %d times: %v", st, p.probes, p.expired)
		}
	})
}

// TestCancelWhileOnTimeoutRuns cancels a drain before its ForceAfter. The connection whose OnTimeout is running isn't looked at then,
// nor later.
func TestCancelWhileOnTimeoutRuns(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, &Options{Shards: 1}, func(r *rig) {
		goOn := make(chan struct{})
		k := r.keeper(func(*TimeoutError) bool { <-goOn; return true })
		r.wait(2 * time.Second)
		d := r.mustDrain(Drain{ForceAfter: 5 * time.Second})
		r.wait(time.Second)
		d.Cancel()
		was := r.Stats().Checks
		r.wait(20 * time.Second)
		if n := r.Stats().Checks - was; n > 2 || !k.Live() {
			r.Errorf("%d checks in 20 s; live: %v", n, k.Live())
		}
		k.Stop()
		close(goOn)
	})
}

// TestSetPolicyBringsForward makes a limit shorter. That moves the connection once.
func TestSetPolicyBringsForward(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		p := r.peer()
		check(r, r.SetPolicy(Policy{IdleTimeout: time.Minute}))
		r.wait(time.Second)
		if n := r.Stats().EarlyReschedules; n != 1 || !p.Live() {
			r.Errorf("%d early reschedules", n)
		}
	})
}

// TestNothingEndsAfterCancel cancels drains while passes carry them out.
func TestNothingEndsAfterCancel(t *testing.T) {
	tr := newTracker(t, Policy{IdleTimeout: time.Hour}, &Options{Shards: 1, Tick: time.Millisecond})
	const n = 500
	for range 60 {
		for tr.live() < n {
			c := new(Conn)
			check(t, tr.Track(c, c, plainHooks()))
		}
		d, err := tr.Drain(Drain{})
		check(t, err)
		for tr.live() == n {
		}
		for range rand.IntN(1000) {
		}
		d.Cancel()
		was := tr.live()
		time.Sleep(3 * time.Millisecond)
		if now := tr.live(); now != was {
			t.Fatalf("%d ended after Cancel", was-now)
		}
	}
}

// TestOnTimeoutReturnsInADrain has OnTimeouts return at the moment of passes, in a drain with a ForceAfter. IdleTimeout
// goes on counting for all that they keep.
func TestOnTimeoutReturnsInADrain(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: 3 * time.Millisecond, NoInterrupt: true}, &Options{Tick: time.Millisecond, Shards: 1}, func(r *rig) {
		const n = 200
		conns, asked := make([]Conn, n), make([]atomic.Int64, n)
		h := plainHooks()
		h.OnTimeout = func(owner any, _ *TimeoutError) bool {
			asked[owner.(int)].Add(1)
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			return true
		}
		for i := range conns {
			check(r, r.Tracker.Track(&conns[i], i, h))
		}
		r.mustDrain(Drain{ForceAfter: time.Hour})
		r.wait(time.Second)
		was := make([]int64, n)
		for i := range asked {
			was[i] = asked[i].Load()
		}
		r.wait(time.Second / 2)
		for i := range asked {
			if asked[i].Load() == was[i] {
				r.Errorf("connection %d: OnTimeout isn't called any more", i)
			}
		}
	})
}

// TestStallBeforeOnDrain has a pass decide to call OnDrain, and then stand still. The owner has its time all the same.
func TestStallBeforeOnDrain(t *testing.T) {
	for _, by := range []Reason{ReasonDrain, ReasonMaxAge} {
		onDriver(t, Policy{MaxAge: time.Hour, MaxAgeGrace: time.Second}, &Options{Shards: 1}, func(r *rig) {
			d := r.peer()
			s := d.shard
			s.mu.Lock()
			s.wheel.Cancel(&d.timer) // no other pass finds it
			s.mu.Unlock()
			v := decision{deadline: deadline{what: evTell, by: by}}
			if by == ReasonDrain {
				v.drain = r.mustDrain(Drain{Duration: time.Hour, CloseDelay: time.Second})
				r.wait(time.Minute)
			} else {
				r.wait(time.Hour - time.Second)
			}
			v.Moment = r.clock.Moment()
			r.wait(2 * time.Second)
			asked := time.Now()
			s.tell(&d.Conn, v)
			r.wait(time.Minute)
			if took := d.at.Sub(asked); len(d.expired) != 1 || d.expired[0].Reason != by || took < time.Second || took > time.Second+r.late() {
				r.Errorf("ended %v after OnDrain: %v", took, d.expired)
			}
		})
	}
}

// TestActivityWhileOnTimeoutRuns has a connection be busy while its OnTimeout runs. In a drain with a ForceAfter it's in the
// wheel for that, and stays there.
func TestActivityWhileOnTimeoutRuns(t *testing.T) {
	onDriver(t, Policy{PhaseTimeout: time.Second, ReadTimeout: time.Minute}, &Options{Shards: 1}, func(r *rig) {
		goOn := make(chan struct{})
		k := r.keeper(func(*TimeoutError) bool { <-goOn; return true })
		k.PauseRead()
		r.mustDrain(Drain{ForceAfter: time.Hour})
		r.wait(2 * time.Second)
		was := r.Stats()
		for range 1000 {
			k.AwaitRead()
			k.Received(1)
			k.PauseRead()
			r.wait(r.opts.Tick)
		}
		if st := r.Stats(); st.Checks != was.Checks || st.EarlyReschedules != was.EarlyReschedules {
			r.Errorf("%d checks, %d moves", st.Checks-was.Checks, st.EarlyReschedules-was.EarlyReschedules)
		}
		k.Stop()
		close(goOn)
	})
}

// TestShardCloseInItself calls Close of a shard in Expire of a connection that Close ends.
func TestShardCloseInItself(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Hour}, nil, true, func(r *rig) {
		var c Conn
		var inner, outer []any
		var innerErr, outerErr error
		r.do(func() {
			if err := r.shard.Track(&c, "c", &Hooks{Expire: func(any, *TimeoutError) { inner, innerErr = r.shard.Close() }}); err != nil {
				r.Error(err)
			}
		})
		r.peer()
		r.do(func() {
			c.End("test")
			outer, outerErr = r.shard.Close()
		})
		if innerErr == nil || inner != nil || outerErr != nil || len(outer) != 1 {
			r.Errorf("%v, %v; in itself %v, %v", outer, outerErr, inner, innerErr)
		}
	})
}

// TestStepsOfVisits makes steps of two visits. None allocates.
func TestStepsOfVisits(t *testing.T) {
	var q visits
	q.add(&visit{})
	q.add(&visit{})
	var last *visit
	n := testing.AllocsPerRun(1000, func() {
		v, _, _ := q.next(1<<20, 1)
		if v == last {
			t.Error("the same has two turns in succession")
		}
		last = v
	})
	if n > 0 {
		t.Errorf("a step allocates %v times", n)
	}
}
