package idle

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// A keeper is asked before it is timed out.
type keeper struct {
	peer
	asked []Reason
	when  []time.Time
	keep  func(*TimeoutError) bool
}

func (k *keeper) OnTimeout(err *TimeoutError) bool {
	k.asked = append(k.asked, err.Reason)
	k.when = append(k.when, time.Now())
	return k.keep(err)
}

func (*keeper) Ping() error { return nil }

func (r *rig) keeper(keep func(*TimeoutError) bool) *keeper {
	k := &keeper{keep: keep}
	r.track(&k.Conn, k)
	return k
}

// TestKeepIsAskedAgainAFullTimeoutLater does so for every reason.
func TestKeepIsAskedAgainAFullTimeoutLater(t *testing.T) {
	const limit = time.Second
	for reason, p := range map[Reason]Policy{
		ReasonIdle:         {IdleTimeout: limit},
		ReasonRead:         {ReadTimeout: limit},
		ReasonWrite:        {WriteTimeout: limit},
		ReasonMaxAge:       {MaxAge: limit},
		ReasonHeartbeat:    {Heartbeat: Heartbeat{Interval: limit / 2, Timeout: limit / 2, Passive: true}},
		ReasonPhase:        {PhaseTimeout: limit},
		ReasonReadTotal:    {ReadTotal: limit},
		ReasonMinReadRate:  {MinReadRate: Rate{10, limit}},
		ReasonMinWriteRate: {MinWriteRate: Rate{10, limit}},
	} {
		t.Run(reason.String(), func(t *testing.T) {
			onBoth(t, p, nil, func(r *rig) {
				n := 0
				k := r.keeper(func(*TimeoutError) bool { n++; return n < 4 })
				r.do(k.AwaitWrite)
				born := time.Now()
				r.wait(10 * limit)
				if !slices.Equal(k.asked, []Reason{reason, reason, reason, reason}) {
					r.Fatalf("asked about %v", k.asked)
				}
				for i, last := 0, born; i < len(k.when); last, i = k.when[i], i+1 {
					if after := k.when[i].Sub(last); after < limit || after > limit+r.late() {
						r.Errorf("asked after %v", after)
					}
				}
				if len(k.expired) != 1 || k.expired[0].Reason != reason || k.at != k.when[3] {
					r.Errorf("timed out: %v", k.expired)
				}
				if st := r.Stats(); st.Extended != 3 || st.TimedOut[reason] != 1 {
					r.Errorf("%+v", st)
				}
			})
		})
	}
}

func TestKeepOfAnActiveHeartbeat(t *testing.T) {
	onBoth(t, beats, nil, func(r *rig) {
		n := 0
		k := r.keeper(func(*TimeoutError) bool { n++; return n < 2 })
		r.lives(&k.peer, 15*time.Second)
		r.dies(&k.peer, k.when[0], 14*time.Second+2*r.opts.Tick, ReasonHeartbeat)
	})
}

// TestEveryLimitIsAskedAbout has all limits pass at once. That the owner has
// averted one of them is no answer about the others, which come up in their order.
func TestEveryLimitIsAskedAbout(t *testing.T) {
	const limit = time.Second
	rate, beat := Rate{1, limit}, Heartbeat{Interval: limit, Passive: true}
	for _, of := range []struct {
		policy Policy
		want   []Reason
	}{{
		Policy{IdleTimeout: limit, ReadTimeout: limit, ReadTotal: limit, MinWriteRate: rate, MaxAge: limit, PhaseTimeout: limit},
		[]Reason{ReasonIdle, ReasonRead, ReasonMaxAge, ReasonMinWriteRate, ReasonPhase, ReasonReadTotal},
	}, {
		Policy{ReadTimeout: limit, MinReadRate: rate, WriteTimeout: limit, MinWriteRate: rate, MaxAge: limit, Heartbeat: beat},
		[]Reason{ReasonRead, ReasonWrite, ReasonMaxAge, ReasonHeartbeat, ReasonMinReadRate, ReasonMinWriteRate},
	}} {
		onBoth(t, of.policy, nil, func(r *rig) {
			k := r.keeper(func(err *TimeoutError) bool { return true })
			r.do(k.AwaitWrite)
			r.lives(&k.peer, limit+10*r.opts.Tick) // one a tick
			if !slices.Equal(k.asked, of.want) {
				r.Errorf("asked about %v, want %v", k.asked, of.want)
			}
		})
	}
}

// TestActivityDuringKeepAverts lets Keep take its time to answer no.
func TestActivityDuringKeepAverts(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		k := r.keeper(func(*TimeoutError) bool { time.Sleep(time.Second); return false })
		r.lives(&k.peer, 1500*time.Millisecond)
		k.Received(1)
		since := time.Now()
		r.lives(&k.peer, 600*time.Millisecond)
		r.dies(&k.peer, since, 2*time.Second, ReasonIdle) // asked again after one
	})
}

// TestOutputDuringKeepIsNone has OnTimeout write a farewell, of which the kernel tells. An answer
// that took so long that the owner is probed again doesn't make that a sign of life.
func TestOutputDuringKeepIsNone(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		k := &refuser{}
		r.track(&k.Conn, k)
		r.dies(&k.peer, time.Now(), 1500*time.Millisecond, ReasonIdle)
		if k.probes != 2 {
			r.Errorf("probed %d times", k.probes)
		}
	})
}

// A refuser takes half a second to write a farewell in OnTimeout.
type refuser struct {
	peer
	wrote  time.Time
	probes int
}

func (k *refuser) OnTimeout(*TimeoutError) bool {
	time.Sleep(500 * time.Millisecond)
	k.wrote = time.Now()
	return false
}

func (k *refuser) Examine() (e SocketState) {
	if k.probes++; !k.wrote.IsZero() {
		e.Out = time.Since(k.wrote) + 1
	}
	return e
}

// TestJudgeLooksOnceMore has a byte arrive between the look that finds a limit
// passed and the end.
func TestJudgeLooksOnceMore(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, &Options{Shards: 1}, func(r *rig) {
		p := r.peer()
		r.own[0].check(&p.Conn)
		r.dies(p, time.Now(), time.Second, ReasonIdle)
	})
}

func TestCloseDuringKeep(t *testing.T) {
	onDriver(t, Policy{IdleTimeout: time.Second}, nil, func(r *rig) {
		k := r.keeper(func(*TimeoutError) bool { time.Sleep(time.Second); return false })
		r.wait(1500 * time.Millisecond)
		if !k.Stop() {
			r.Error("it was live still")
		}
		r.wait(time.Minute)
		if len(k.expired) > 0 {
			r.Errorf("timed out after Close: %v", k.expired)
		}
	})
}

// TestKeepOfAPhaseThatWasLeft has the connection enter a phase with a heartbeat
// while Keep makes up its mind about the limit of the phase before. What it
// answers is no beat; nor does a beat begin a phase anew.
func TestKeepOfAPhaseThatWasLeft(t *testing.T) {
	onDriver(t, Policy{PhaseTimeout: time.Second}, nil, func(r *rig) {
		beaten := r.phaseOf(Policy{Heartbeat: Heartbeat{Interval: 2 * time.Second, Passive: true}})
		k := r.keeper(func(err *TimeoutError) bool { time.Sleep(time.Second); return err.Reason == ReasonPhase })
		r.lives(&k.peer, 1100*time.Millisecond)
		k.Enter(beaten)
		r.dies(&k.peer, time.Now(), 3*time.Second, ReasonHeartbeat) // asked after two, which takes one
	})
	onDriver(t, Policy{Heartbeat: Heartbeat{Interval: time.Second, Passive: true}}, nil, func(r *rig) {
		timed := r.phaseOf(Policy{PhaseTimeout: 2 * time.Second})
		k := r.keeper(func(err *TimeoutError) bool { time.Sleep(time.Second); return err.Reason == ReasonHeartbeat })
		r.lives(&k.peer, 1100*time.Millisecond)
		k.Enter(timed)
		r.dies(&k.peer, time.Now(), 3*time.Second, ReasonPhase)
	})
}

// TestRateKeptInAPause has a reading pause while Keep makes up its mind about
// its rate. That pause was forgiven with what was before the answer.
func TestRateKeptInAPause(t *testing.T) {
	onDriver(t, Policy{MinReadRate: Rate{BytesPerSecond: 100, Grace: time.Second}}, nil, func(r *rig) {
		n := 0
		k := r.keeper(func(*TimeoutError) bool {
			if n++; n == 1 {
				time.Sleep(700 * time.Millisecond)
			}
			return n == 1
		})
		r.lives(&k.peer, 1100*time.Millisecond)
		k.PauseRead()
		r.lives(&k.peer, time.Second) // the answer has come
		k.AwaitRead()
		r.dies(&k.peer, time.Now(), time.Second, ReasonMinReadRate)
	})
}

// TestKeepOfASuspendedWait has OnTimeout keep a connection while its wait is suspended. The limit
// starts over when the wait is resumed, and only that time.
func TestKeepOfASuspendedWait(t *testing.T) {
	const limit, answer = 10 * time.Second, time.Second
	for _, write := range []bool{false, true} {
		t.Run(fmt.Sprintf("write %v", write), func(t *testing.T) {
			onDriver(t, Policy{ReadTimeout: limit, WriteTimeout: limit}, nil, func(r *rig) {
				k := r.keeper(func(*TimeoutError) bool { time.Sleep(answer); return true })
				suspend, resume, await, pause := k.SuspendRead, k.ResumeRead, k.AwaitRead, k.PauseRead
				if write {
					k.PauseRead()
					suspend, resume, await, pause = k.SuspendWrite, k.ResumeWrite, k.AwaitWrite, k.PauseWrite
					k.AwaitWrite()
				}
				asked := func(n int, when string) {
					r.Helper()
					if len(k.asked) != n {
						r.Fatalf("%s: asked %d times, want %d", when, len(k.asked), n)
					}
				}
				var w Wait
				r.wait(limit + r.late())
				asked(1, "after the limit")
				suspend(&w)
				r.wait(answer)
				resume(&w)
				r.wait(limit - defaultTick)
				asked(1, "resumed after the answer")
				r.wait(defaultTick + r.late())
				asked(2, "after the limit, resumed")
				pause()
				r.wait(answer)
				await()
				r.wait(limit / 2)
				w = Wait{}
				suspend(&w)
				resume(&w)
				r.wait(limit/2 - 2*defaultTick)
				asked(2, "in another wait")
				r.wait(2*defaultTick + r.late())
				asked(3, "after the limit of another wait")
			})
		})
	}
}
