package idle

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// TestDriverSleepsWhenSilent counts how often the driver asks a shard for what
// is due: once a tick while the clock runs, never while it sleeps.
func TestDriverSleepsWhenSilent(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		woken := 0
		shard, err := r.NewShard(func(func()) error { woken++; return ErrClosed })
		check(r, err)
		p := r.peer()
		r.wait(time.Second)
		shard.due.Store(0) // looks due whenever the driver is awake
		r.wait(time.Minute)
		if woken > 0 {
			r.Errorf("woken %d times", woken)
		}
		p.Touch()
		r.wait(20 * r.opts.Tick)
		if woken < 20 || woken > 45 {
			r.Errorf("woken %d times in 20 ticks", woken)
		}
		shard.due.Store(never)
		shard.Close()
	})
}

// TestSilentConnectionsCostNothing has many of them, with far timeouts.
func TestSilentConnectionsCostNothing(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: 24 * time.Hour}, nil, func(r *rig) {
		for range 1000 {
			r.peer()
		}
		r.wait(23 * time.Hour)
		if st := r.Stats(); st.Passes > 100 || st.Checks > 5*1000 {
			r.Errorf("%d passes and %d looks for 1000 silent connections", st.Passes, st.Checks)
		}
	})
}

// TestSilenceAcrossWraps uses a connection in one way only, for as long as stamps wrap. No word comes to look new because of
// that, so the limit passes in time.
func TestSilenceAcrossWraps(t *testing.T) {
	const day = 24 * time.Hour // 2³¹ ticks are 248 days; after 300 an old word would seem to be of the future
	both := Policy{IdleTimeout: 15 * day, WriteTimeout: time.Second, MinWriteRate: Rate{10, 2 * time.Second}}
	receives, awaits := func(_ *rig, p *peer) { p.Received(1) }, func(_ *rig, p *peer) { p.AwaitWrite() }
	for name, c := range map[string]struct {
		policy  Policy
		silence time.Duration
		use     func(*rig, *peer)
		begin   func(*rig, *peer)
		limit   time.Duration
		by      Reason
	}{
		"no output":   {both, 10 * day, receives, awaits, time.Second, ReasonWrite},
		"input only":  {Policy{IdleTimeout: 15 * day}, 10 * day, receives, nil, 15 * day, ReasonIdle},
		"output only": {Policy{IdleTimeout: 15 * day}, 10 * day, func(_ *rig, p *peer) { p.Sent(1) }, nil, 15 * day, ReasonIdle},
		"use only":    {Policy{IdleTimeout: 15 * day, ExplicitUse: true}, 10 * day, func(_ *rig, p *peer) { p.Use() }, nil, 15 * day, ReasonIdle},
		"no beat": {both, 10 * day, receives, func(r *rig, p *peer) {
			p.Enter(r.phaseOf(Policy{Heartbeat: Heartbeat{Interval: 10 * time.Second, Passive: true}}))
		}, 10 * time.Second, ReasonHeartbeat},
		"no phase": {both, 10 * day, receives, func(r *rig, p *peer) { p.Enter(r.phaseOf(Policy{PhaseTimeout: time.Second})) }, time.Second, ReasonPhase},
		"no ping":  {Policy{Heartbeat: Heartbeat{Interval: 10 * day, Timeout: day}}, 9 * day, receives, nil, 11 * day, ReasonHeartbeat},
		"nothing": {both, (1<<31 + 1<<29) * defaultTick, func(r *rig, p *peer) {
			p.Enter(r.phase)
			p.AwaitWrite()
			p.Sent(30)
			p.PauseWrite()
			p.Enter(r.phaseOf(Policy{}))
		}, func(r *rig, p *peer) { p.Enter(r.phase); p.AwaitWrite() }, time.Second, ReasonWrite},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, c.policy, nil, func(r *rig) {
				p := r.pinged()
				for begun := time.Now(); time.Since(begun) < 300*day; {
					r.do(func() { c.use(r, p) })
					r.lives(p, c.silence)
				}
				if len(p.pings) > 0 {
					r.Errorf("pinged after %v", p.pings)
				}
				r.do(func() {
					if c.use(r, p); c.begin != nil {
						c.begin(r, p)
					}
				})
				r.dies(p, time.Now(), c.limit, c.by)
			})
		})
	}
}

// TestPauseAcrossWraps has neither direction wait for as long as it takes for the
// stamp of a wait to wrap, or longer. It owes nothing for that.
func TestPauseAcrossWraps(t *testing.T) {
	rate := Rate{100, time.Second}
	onBoth(t, Policy{MinReadRate: rate, MinWriteRate: rate}, nil, func(r *rig) {
		for _, ticks := range []time.Duration{1 << 28, 1 << 29, 1<<29 + 1<<28, 1 << 30, 1<<30 + 1<<29, 1 << 31, 1 << 32} {
			for reason, await := range map[Reason]func(*peer){
				ReasonMinReadRate:  func(p *peer) { p.AwaitRead() },
				ReasonMinWriteRate: func(p *peer) { p.AwaitWrite() },
			} {
				p := r.peer()
				r.do(p.PauseRead)
				r.lives(p, ticks*r.opts.Tick+odd)
				r.do(func() { await(p) })
				r.dies(p, time.Now(), time.Second, reason)
			}
		}
	})
}

// TestStallWithinAPassIsNeverEarly has two peers come up
// in the same pass, the first stalls it, and the second becomes active in the
// meantime. The stamp for that is the stalled one, of which no end is known.
func TestStallWithinAPassIsNeverEarly(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: 100 * time.Millisecond}, &Options{Shards: 1}, func(r *rig) {
		r.with(&peer{onExpire: func() { time.Sleep(time.Second) }})
		p := r.peer()
		r.wait(1050 * time.Millisecond)
		p.Received(1)
		active := time.Now()
		r.wait(10 * time.Second)
		if lived := p.at.Sub(active); len(p.expired) != 1 || lived < 100*time.Millisecond {
			r.Errorf("timed out %v after its last activity: %v", lived, p.expired)
		}
	})
}

// atWrap runs a test with a tracker whose clock sleeps, so that ticks pass 2³² after the
// given time.
func atWrap(t *testing.T, p Policy, after time.Duration, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tr, err := New(p, &Options{Tick: defaultTick, Shards: 1})
		check(t, err)
		r := &rig{T: t, Tracker: tr}
		defer r.end()
		ageClock(tr, 1<<32-tr.clock.Now()-int64(after/defaultTick))
		test(r)
	})
}

// TestEvidenceAtTheWrap has bytes move in the tick whose stamp would be 0, or about then, and
// the owner report them by SocketState. From then on the connection is active all the time,
// while the clock sleeps.
func TestEvidenceAtTheWrap(t *testing.T) {
	if raceEnabled {
		t.Skip("it sets the clock forward")
	}
	const limit = time.Second
	for name, find := range map[string]func(since time.Duration) SocketState{
		"in":     func(since time.Duration) SocketState { return SocketState{In: since} },
		"out":    func(since time.Duration) SocketState { return SocketState{Out: since} },
		"unread": func(time.Duration) SocketState { return SocketState{Unread: true} },
	} {
		for late := time.Duration(-3); late <= 4; late++ {
			const found = 500 * time.Millisecond
			wrap := found - late*defaultTick
			if name == "unread" { // which counts as activity when the limit has passed
				wrap = limit - late*defaultTick
			}
			atWrap(t, Policy{IdleTimeout: limit}, wrap, func(r *rig) {
				p := r.prober(func() SocketState { return SocketState{} })
				r.wait(found)
				at := time.Now()
				p.probe = func() SocketState { return find(time.Since(at)) }
				r.wait(limit - found + 200*time.Millisecond)
				if name == "unread" {
					p.probe = func() SocketState { return SocketState{} }
				}
				for range 20 {
					if name == "out" {
						p.TouchOut()
					} else {
						p.Touch()
					}
					r.wait(limit / 2)
				}
				if !p.Live() {
					r.Errorf("%s %d ticks after the wrap: the active connection was ended: %v", name, late, p.expired)
				}
			})
		}
	}
}

// TestRefreshAtTheWrap refreshes old stamps when the oldest one allowed would be 0.
func TestRefreshAtTheWrap(t *testing.T) {
	var c Conn
	for _, w := range []*tickWord{&c.born, &c.lastIn, &c.lastOut} {
		w.Store(clock.StampOf(1<<32 - 1))
	}
	c.refresh(1<<32 + 2*clock.MaxTicks)
	if c.born.Load().Bits() == 1<<32-1 || c.lastIn.Load().Asleep() || c.lastOut.Load().Asleep() {
		t.Errorf("the stamps are %d, %d and %d", c.born.Load().Bits(), c.lastIn.Load().Bits(), c.lastOut.Load().Bits())
	}
}

// TestForeignClock uses a tracker in a bubble that it was not made in. Its time would go
// back there.
func TestForeignClock(t *testing.T) {
	tr := newTracker(t, Policy{IdleTimeout: time.Second}, nil)
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			const want = "idle: a tracker that was made outside a synctest bubble is used in it; make it in the bubble"
			if err := recover(); err != want {
				t.Errorf("panics with %v", err)
			}
		}()
		var p peer
		tr.Track(&p.Conn, &p, hooksOf(&p))
		t.Error("does not panic")
	})
}
