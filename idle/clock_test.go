package idle

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// TestClockSleepsWhenSilent checks that the driver wakes up for nothing but
// what is due. That it wakes up is seen in the time it notes.
func TestClockSleepsWhenSilent(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		if !r.clock.Sleeping() {
			r.Error("awake without a connection")
		}
		p := r.peer()
		r.wait(10 * r.opts.Tick)
		p.Touch()
		if r.clock.Sleeping() {
			r.Error("asleep while active")
		}
		r.wait((quietTicks + 2) * r.opts.Tick)
		if !r.clock.Sleeping() {
			r.Error("awake although silent")
		}
		before := r.Stats()
		r.wait(59 * time.Minute)
		// It may come up once a level of the wheel on its way down.
		if after := r.Stats(); after.Passes > before.Passes+3 || after.Checks > before.Checks+3 || !r.clock.Sleeping() {
			r.Errorf("not asleep: %+v, then %+v", before, after)
		}
	})
}

// TestClockStaysAwakeWhileActive has something arrive now and then, for long.
func TestClockStaysAwakeWhileActive(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		p := r.peer()
		for range 20 {
			r.wait(quietTicks / 2 * r.opts.Tick)
			if r.clock.Sleeping() {
				r.Fatal("asleep while active")
			}
			r.do(p.Touch)
		}
	})
}

// TestDriverSleepsWhenSilent counts how often the driver asks a shard for what
// is due: once a tick while the clock runs, never while it sleeps.
func TestDriverSleepsWhenSilent(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		woken := 0
		shard, err := r.NewShard(func(func()) error { woken++; return ErrClosed })
		if err != nil {
			r.Fatal(err)
		}
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

// TestActivityAfterSleepIsStampedExactly has a timeout of one tick, which
// leaves no room for a stale stamp.
func TestActivityAfterSleepIsStampedExactly(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		short := r.phaseOf(Policy{IdleTimeout: r.opts.Tick})
		for range 20 {
			p := r.peer()
			r.lives(p, time.Minute+odd)
			if !r.clock.Sleeping() {
				r.Fatal("not asleep")
			}
			r.do(func() { p.Enter(short) })
			r.dies(p, time.Now(), r.opts.Tick, ReasonIdle)
		}
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

// TestWrapOfStamps has all limits pass while the stamps' 31 and 32 bits wrap.
func TestWrapOfStamps(t *testing.T) {
	limits := map[Reason]Policy{
		ReasonIdle:         {IdleTimeout: time.Second},
		ReasonRead:         {ReadTimeout: time.Second},
		ReasonWrite:        {WriteTimeout: time.Second},
		ReasonMaxAge:       {MaxAge: time.Second},
		ReasonHeartbeat:    {Heartbeat: Heartbeat{Interval: time.Second, Passive: true}},
		ReasonMinReadRate:  {MinReadRate: Rate{10, time.Second}},
		ReasonMinWriteRate: {MinWriteRate: Rate{10, time.Second}},
	}
	for reason, p := range limits {
		for _, wrap := range []int64{1 << 30, 1 << 31, 1 << 32, 1<<32 + 1<<31, 1 << 33} {
			for _, before := range []int64{120, 100, 99, 50, 1, 0} {
				onDriver(t, p, nil, func(r *rig) {
					ageClock(r.Tracker, wrap-before)
					p := r.peer()
					p.AwaitWrite()
					r.dies(p, time.Now(), time.Second, reason)
					q := r.peer() // one that is active as the stamps wrap
					q.AwaitWrite()
					r.lives(q, 500*time.Millisecond+odd)
					if reason != ReasonMaxAge {
						q.Enter(r.phase)
						r.dies(q, time.Now(), time.Second, reason)
					}
				})
			}
		}
	}
}

// TestSilenceAcrossWraps leaves a connection alone for as long as stamps wrap.
func TestSilenceAcrossWraps(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour, WriteTimeout: time.Second, MinWriteRate: Rate{10, 2 * time.Second}}, nil, func(r *rig) {
		p, exempt := r.peer(), r.phaseOf(Policy{})
		for range 5 {
			r.do(func() { p.Enter(exempt) })
			r.lives(p, (1<<31+1<<29)*r.opts.Tick)
			r.do(func() { p.Enter(r.phase); p.AwaitWrite() })
			r.lives(p, 900*time.Millisecond)
			r.do(func() { p.Sent(30); p.PauseWrite() })
		}
		r.do(func() { p.Enter(r.phase); p.AwaitWrite() })
		r.dies(p, time.Now(), time.Second, ReasonWrite)
	})
}

// TestSilentDirectionAcrossWraps has bytes come, but none go, for as long as
// stamps wrap: the stamp of the last one that went must not come to look new.
func TestSilentDirectionAcrossWraps(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: 15 * 24 * time.Hour, WriteTimeout: time.Second}, nil, func(r *rig) {
		p := r.peer()
		for range 30 {
			r.lives(p, 10*24*time.Hour) // 2³¹ ticks are 248 days
			r.do(func() { p.Received(1) })
		}
		r.do(p.AwaitWrite)
		r.dies(p, time.Now(), time.Second, ReasonWrite)
	})
}

// TestOneUseAcrossWraps has a connection be used in one way only, for as long as stamps wrap. No other word comes to
// look new, so IdleTimeout passes in time.
func TestOneUseAcrossWraps(t *testing.T) {
	const limit = 15 * 24 * time.Hour
	for name, use := range map[string]func(*peer){
		"Received": func(p *peer) { p.Received(1) }, "Sent": func(p *peer) { p.Sent(1) }, "Use": func(p *peer) { p.Use() },
	} {
		onBoth(t, Policy{IdleTimeout: limit, ExplicitUse: name == "Use"}, nil, func(r *rig) {
			p := r.peer()
			for range 30 {
				r.lives(p, 10*24*time.Hour)
				r.do(func() { use(p) })
			}
			r.dies(p, time.Now(), limit, ReasonIdle)
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

// TestPingAcrossWraps has bytes come for as long as stamps wrap, so that nobody
// pings: the stamp of the last ping must not come to look new.
func TestPingAcrossWraps(t *testing.T) {
	const day = 24 * time.Hour
	onBoth(t, Policy{Heartbeat: Heartbeat{Interval: 10 * day, Timeout: day}}, nil, func(r *rig) {
		p := r.pinged()
		for range 35 {
			r.lives(&p.peer, 9*day)
			r.do(p.Touch)
		}
		since := time.Now()
		if len(p.pings) > 0 {
			r.Fatalf("pinged after %v", p.pings)
		}
		r.dies(&p.peer, since, 11*day, ReasonHeartbeat)
	})
}

// A staller stands still in its callback, and with it the driver and the
// clock's copies: as if the process had been stopped.
type staller struct {
	peer
	stall func()
}

func (s *staller) Expire(err *TimeoutError) { s.peer.Expire(err); s.stall() }

// TestStallIsNeverEarly has a peer become active during a stall, and then
// checks on it after; its stamp is as old as the stall is long.
func TestStallIsNeverEarly(t *testing.T) {
	for name, policy := range map[string]Policy{
		"idle":  {IdleTimeout: time.Second},
		"read":  {ReadTimeout: time.Second},
		"write": {WriteTimeout: time.Second},
	} {
		for _, stall := range []time.Duration{odd, 50 * time.Millisecond, 950 * time.Millisecond, 5 * time.Second} {
			t.Run(name+"/"+stall.String(), func(t *testing.T) {
				onDriver(t, policy, &Options{Shards: 1}, func(r *rig) {
					p := &peer{}
					s := &staller{stall: func() { time.Sleep(stall) }}
					r.track(&s.Conn, s)
					s.AwaitWrite()
					r.wait(500 * time.Millisecond)
					r.track(&p.Conn, p)
					p.AwaitWrite()
					r.wait(400 * time.Millisecond)
					p.Touch() // or the clock would sleep, and stamp exactly
					r.wait(100*time.Millisecond + r.opts.Tick + r.clock.Slack + stall*9/10)
					p.Received(1)
					p.Sent(1)
					active := time.Now()
					r.wait(10 * time.Second)
					if lived := p.at.Sub(active); len(p.expired) != 1 || lived < time.Second || lived > time.Second+stall+2*r.late() {
						r.Errorf("timed out %v after its last activity: %v", lived, p.expired)
					}
				})
			})
		}
	}
}

// TestStallWithinAPassIsNeverEarly is the worst of the above: two peers come up
// in the same pass, the first stalls it, and the second becomes active in the
// meantime. The stamp for that is the stalled one, of which no end is known.
func TestStallWithinAPassIsNeverEarly(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: 100 * time.Millisecond}, &Options{Shards: 1}, func(r *rig) {
		s := &staller{stall: func() { time.Sleep(time.Second) }}
		p := &peer{}
		r.track(&s.Conn, s)
		r.track(&p.Conn, p)
		r.wait(1050 * time.Millisecond)
		p.Received(1)
		active := time.Now()
		r.wait(10 * time.Second)
		if lived := p.at.Sub(active); len(p.expired) != 1 || lived < 100*time.Millisecond {
			r.Errorf("timed out %v after its last activity: %v", lived, p.expired)
		}
	})
}

// TestStaleTouchDoesNotGoBack has a goroutine be suspended in Touch, after it
// has read the clock; meanwhile another one reports newer activity.
func TestStaleTouchDoesNotGoBack(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		p := r.peer()
		r.wait(100 * time.Millisecond)
		p.Touch()
		stale := p.shard.now.Load()
		r.wait(500 * time.Millisecond)
		p.Touch()
		since := time.Now()
		p.lastIn.Raise(stale) // the first one goes on
		r.dies(p, since, time.Second, ReasonIdle)
	})
}

// atWrap runs a test with a tracker whose clock sleeps, so that ticks pass 2³² after the
// given time.
func atWrap(t *testing.T, p Policy, after time.Duration, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tr, err := New(p, &Options{Tick: defaultTick, Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{T: t, Tracker: tr}
		defer r.end()
		ageClock(tr, 1<<32-tr.clock.Now()-int64(after/defaultTick))
		test(r)
	})
}

// A found peer reports by SocketState what arrived or was sent.
type foundPeer struct {
	peer
	in, out time.Time
	unread  bool
}

func (p *foundPeer) Examine() (e SocketState) {
	if !p.in.IsZero() {
		e.In = time.Since(p.in)
	}
	if !p.out.IsZero() {
		e.Out = time.Since(p.out)
	}
	e.Unread = p.unread
	return e
}

// TestEvidenceAtTheWrap has bytes move in the tick whose stamp would be 0, or about then, and
// the owner report them by SocketState. From then on the connection is active all the time,
// while the clock sleeps.
func TestEvidenceAtTheWrap(t *testing.T) {
	if raceEnabled {
		t.Skip("it sets the clock forward")
	}
	const limit = time.Second
	for name, find := range map[string]func(p *foundPeer, at time.Time){
		"in":     func(p *foundPeer, at time.Time) { p.in = at },
		"out":    func(p *foundPeer, at time.Time) { p.out = at },
		"unread": func(p *foundPeer, _ time.Time) { p.unread = true },
	} {
		for late := time.Duration(-3); late <= 4; late++ {
			const found = 500 * time.Millisecond
			wrap := found - late*defaultTick
			if name == "unread" { // which counts as activity when the limit has passed
				wrap = limit - late*defaultTick
			}
			atWrap(t, Policy{IdleTimeout: limit}, wrap, func(r *rig) {
				p := &foundPeer{}
				r.track(&p.Conn, p)
				r.wait(found)
				find(p, time.Now())
				r.wait(limit - found + 200*time.Millisecond)
				p.unread = false
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
	tr, err := New(Policy{IdleTimeout: time.Second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
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
