package idle

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestClose ends the tracking of connections, one after the other.
func TestClose(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		p := r.peer()
		for i := range uint64(3) {
			r.do(func() {
				if !p.Stop() || p.Live() || p.Stop() {
					r.Error("Close does not tell what was live")
				}
			})
			r.lives2(p, 10*time.Second+odd)
			p = r.peer()
			r.lives(p, 900*time.Millisecond)
			if st := r.Stats(); st.Tracked != 2+i || st.Closed != 1+i || st.Live != 1 {
				r.Errorf("%+v", st)
			}
		}
		r.dies(p, time.Now().Add(-900*time.Millisecond), time.Second, ReasonIdle)
	})
}

// lives2 waits for d, in which the closed p must not be timed out.
func (r *rig) lives2(p *peer, d time.Duration) {
	r.Helper()
	r.wait(d)
	if len(p.expired) > 0 {
		r.Fatalf("timed out after Close: %v", p.expired)
	}
}

func TestUseAfterTheEndIsHarmless(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second, MinReadRate: Rate{1, time.Minute}}, nil, func(r *rig) {
		closed, expired := r.peer(), r.peer()
		zero := &Conn{}
		if zero.Stop() || zero.Live() {
			r.Error("a zero Conn is live")
		}
		r.do(func() { closed.Stop() })
		r.dies(expired, time.Now(), time.Second, ReasonIdle)
		use := func() {
			for _, c := range []*Conn{&closed.Conn, &expired.Conn} {
				c.Touch()
				c.Received(5)
				c.Sent(5)
				c.PauseRead()
				c.AwaitRead()
				c.AwaitWrite()
				c.PauseWrite()
				c.Beat()
				c.Enter(r.Tracker.phase)
				if c.Live() || c.Stop() {
					r.Error("came to life again")
				}
			}
		}
		r.do(use)
		r.wait(time.Minute)
		r.closeShard()
		r.Tracker.Close()
		use()
		p := &peer{}
		if err := r.tryTrack(&p.Conn, p); err != ErrClosed || p.Live() {
			r.Errorf("tracked after Close: %v", err)
		}
		if _, err := r.Tracker.Close(); err != ErrClosed {
			r.Errorf("closed twice: %v", err)
		}
		if _, err := r.NewShard(func(func()) error { return nil }); err != ErrClosed {
			r.Errorf("a new shard after Close: %v", err)
		}
		r.wait(time.Minute)
		if len(closed.expired) != 0 || len(expired.expired) != 1 {
			r.Errorf("timed out: %v, %v", closed.expired, expired.expired)
		}
	})
}

// TestCloseHandsBackTheLive also shows, by the end of the bubble, that Close
// leaves no goroutine.
func TestCloseHandsBackTheLive(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		exempt := r.phaseOf(Policy{})
		dead, gone := r.peer(), r.peer()
		r.do(func() { gone.Stop() })
		r.dies(dead, time.Now(), time.Second, ReasonIdle)
		want := map[any]bool{}
		for i := range 100 {
			p := r.peer()
			want[p] = true
			if i%2 == 0 {
				r.do(func() { p.Enter(exempt) })
			}
		}
		live := r.closeShard()
		own, err := r.Tracker.Close()
		if err != nil {
			r.Error(err)
		}
		for _, o := range append(live, own...) {
			if !want[o] || o.(*peer).Live() || o.(*peer).Stop() {
				r.Errorf("handed back %v, live %v", o, o.(*peer).Live())
			}
			delete(want, o)
		}
		if st := r.Stats(); len(want) != 0 || st.Tracked != 102 || st.HandedBack != 100 || st.Closed != 1 || st.Live != 0 || st.Lifetime.Count() != 2 {
			r.Errorf("%d not handed back; %+v", len(want), st)
		}
		r.wait(time.Minute)
		if len(dead.expired) != 1 {
			r.Errorf("timed out: %v", dead.expired)
		}
	})
}

// TestCloseInACallback calls Close in each callback. It must return, with an error
// that tells of the callback that it has waited for.
func TestCloseInACallback(t *testing.T) {
	policy := Policy{IdleTimeout: 5 * time.Second, ExplicitUse: true, MaxAge: 3 * time.Second, MaxAgeGrace: time.Hour,
		Heartbeat: Heartbeat{Interval: 2 * time.Second, Timeout: time.Hour}}
	for _, in := range []string{"Ping", "OnDrain", "Examine", "OnTimeout", "Expire"} {
		t.Run(in, func(t *testing.T) {
			onBoth(t, policy, nil, func(r *rig) {
				p := &callbackCloser{rig: r, in: in}
				r.track(&p.Conn, p)
				r.wait(time.Minute)
				if len(p.errs) == 0 {
					r.Fatal("it was not called")
				}
				if err := p.errs[0]; r.loop == nil && (err == nil || !strings.Contains(err.Error(), "one of them has called Close")) {
					r.Errorf("Close in %s: %v", in, err)
				}
				if r.loop != nil {
					if err := p.errs[1]; err != errInPass {
						r.Errorf("Close of the shard in %s: %v", in, err)
					}
					r.closeShard()
				}
				if st := r.Stats(); st.Live != 0 {
					r.Errorf("%+v", st)
				}
			})
		})
	}
}

type callbackCloser struct {
	peer
	rig  *rig
	in   string
	mu   sync.Mutex
	errs []error
}

func (p *callbackCloser) close(in string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.in != in {
		return
	}
	_, err := p.rig.Tracker.Close()
	p.errs = append(p.errs, err)
	if p.rig.shard != nil {
		_, err := p.rig.shard.Close()
		p.errs = append(p.errs, err)
	}
}

func (p *callbackCloser) Expire(err *TimeoutError)     { p.close("Expire"); p.peer.Expire(err) }
func (p *callbackCloser) Ping() error                  { p.close("Ping"); return nil }
func (p *callbackCloser) OnTimeout(*TimeoutError) bool { p.close("OnTimeout"); return false }
func (p *callbackCloser) Examine() SocketState         { p.close("Examine"); return SocketState{} }
func (p *callbackCloser) OnDrain()                     { p.close("OnDrain") }

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

func TestShardCloseTwice(t *testing.T) {
	inBubble(t, Policy{IdleTimeout: time.Second}, nil, true, func(r *rig) {
		r.peer()
		if live := r.closeShard(); len(live) != 1 {
			r.Errorf("handed back %v", live)
		}
		if _, err := r.shard.Close(); err != ErrShardClosed {
			r.Errorf("closed twice: %v", err)
		}
		if st := r.Stats(); st.Tracked != 1 || st.HandedBack != 1 {
			r.Errorf("the counts of a closed shard are lost: %+v", st)
		}
	})
}

// TestLoopThatFailsIsTriedAgain has execute refuse a few times.
func TestLoopThatFailsIsTriedAgain(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		l, n := newLoop(), 0
		shard, err := r.NewShard(func(pass func()) error {
			if n++; n < 4 {
				return ErrClosed
			}
			l.post(pass)
			return nil
		})
		if err != nil {
			r.Fatal(err)
		}
		p, born := &peer{}, time.Now()
		l.do(func() { err = shard.Track(&p.Conn, p, hooksOf(p)) })
		r.wait(2 * time.Second)
		if late := p.at.Sub(born) - time.Second; err != nil || len(p.expired) != 1 || late > r.late()+3*r.opts.Tick {
			r.Errorf("%v; timed out %v late: %v", err, late, p.expired)
		}
		l.do(func() { shard.Close() })
		l.stop()
	})
}

// TestCloseLetsGoOfTheConn: a connection that has ended must not be kept in
// memory until its timeout would have been.
func TestCloseLetsGoOfTheConn(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Hour}, &Options{Shards: 1}, func(r *rig) {
		p := r.peer()
		p.Stop()
		if n := r.own[0].wheel.Len(); n != 0 {
			r.Errorf("%d timers are pending", n)
		}
	})
}

// TestTrackTwice tracks a Conn that is tracked, that has timed out, that has been closed, and that was handed back.
func TestTrackTwice(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		again := func(p *peer, what string) {
			r.Helper()
			if err := r.tryTrack(&p.Conn, p); err != ErrTracked {
				r.Errorf("a Conn that %s is tracked again: %v", what, err)
			}
		}
		p, closed := &peer{}, &peer{}
		r.track(&p.Conn, p)
		r.track(&closed.Conn, closed)
		again(p, "is tracked")
		r.do(func() { closed.Stop() })
		again(closed, "was closed")
		r.wait(time.Second + r.late())
		again(p, "has timed out")
		if len(p.expired) != 1 || len(closed.expired) != 0 {
			r.Errorf("timed out %d and %d times", len(p.expired), len(closed.expired))
		}
		if st := r.Stats(); st.Tracked != 2 || st.Live != 0 {
			r.Errorf("%+v", st)
		}
		back := &peer{}
		r.track(&back.Conn, back)
		r.closeShard()
		r.Tracker.Close()
		if back.Live() || back.Stop() {
			r.Error("handed back, and still tracked")
		}
		tr, err := New(Policy{IdleTimeout: time.Second}, nil)
		if err != nil {
			r.Fatal(err)
		}
		defer tr.Close()
		if err := tr.Track(&back.Conn, back, hooksOf(back)); err != ErrTracked {
			r.Errorf("a Conn that was handed back is tracked again: %v", err)
		}
	})
}

// TestTrackAfterRefusal tracks a Conn that was refused for want of room.
func TestTrackAfterRefusal(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Hour}, nil, func(r *rig) {
		first, second := &peer{}, &peer{}
		if err := r.SetCapacity(Capacity{MaxConns: 1, MinIdle: time.Hour}); err != nil {
			r.Fatal(err)
		}
		r.track(&first.Conn, first)
		if err := r.tryTrack(&second.Conn, second); !errors.Is(err, ErrFull) || second.Live() {
			r.Fatalf("the second: %v", err)
		}
		r.do(func() { first.Stop() })
		r.track(&second.Conn, second)
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

// TestCloseInOnEnd closes a connection in its OnEnd. Expire follows, and is the last callback.
func TestCloseInOnEnd(t *testing.T) {
	onBoth(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		var c Conn
		var called []string
		h := &Hooks{
			OnEnd: func(any, *TimeoutError) {
				if c.Stop() {
					r.Error("Close = true after a timeout")
				}
				called = append(called, "OnEnd")
			},
			Expire: func(any, *TimeoutError) { called = append(called, "Expire") },
		}
		r.do(func() {
			if err := r.trackOf()(&c, "owner", h); err != nil {
				r.Error(err)
			}
		})
		r.wait(time.Minute)
		r.do(func() {
			if !slices.Equal(called, []string{"OnEnd", "Expire"}) {
				r.Errorf("called: %v", called)
			}
		})
	})
}

// closings is how often a test closes a tracker while its driver is busy. Afterwards the driver may
// run a pass first, or see that the tracker is closed.
const closings = 30

// A leaver is a connection that is to be ended. Its OnEnd takes a while.
type leaver struct {
	peer
	farewell time.Time // when OnEnd had returned
}

func (o *leaver) OnEnd(*TimeoutError) {
	time.Sleep(100 * time.Millisecond)
	o.farewell = time.Now()
}

// TestCloseCarriesOutEnds closes a tracker right after Conn.End. The connection ends for that reason,
// and isn't handed back, because its owner relies on the end.
func TestCloseCarriesOutEnds(t *testing.T) {
	check := func(r *rig) {
		stays, leaves := &leaver{}, &leaver{}
		r.track(&stays.Conn, stays)
		r.track(&leaves.Conn, leaves)
		other := &staller{stall: func() { time.Sleep(20 * time.Millisecond) }}
		r.track(&other.Conn, other)
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
		if leaves.at.Before(leaves.farewell) {
			r.Errorf("expired at %v, OnEnd has returned at %v", leaves.at, leaves.farewell)
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

// A slowToEnd takes 2 ms to end, so that others can do something in the middle of a pass.
type slowToEnd struct{ peer }

func (p *slowToEnd) Expire(err *TimeoutError) {
	p.peer.Expire(err)
	time.Sleep(2 * time.Millisecond)
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
			all := make([]*slowToEnd, 50)
			for i := range all {
				all[i] = &slowToEnd{}
				r.track(&all[i].Conn, all[i])
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
