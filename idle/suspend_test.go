package idle

import (
	"fmt"
	"testing"
	"time"
)

// A suspender is a wait of a peer's that is suspended and resumed.
type suspender struct {
	*rig
	*peer
	w                       Wait
	suspends, resumes       func(*Conn, *Wait)
	awaits, pauses, arrives func(*Conn)
}

func (s *suspender) suspend() { s.do(func() { s.suspends(&s.Conn, &s.w) }) }
func (s *suspender) resume()  { s.do(func() { s.resumes(&s.Conn, &s.w) }) }
func (s *suspender) await()   { s.do(func() { s.awaits(&s.Conn) }) }
func (s *suspender) pause()   { s.do(func() { s.pauses(&s.Conn) }) }
func (s *suspender) arrive()  { s.do(func() { s.arrives(&s.Conn) }) }

// suspended is for how long waits are suspended in TestSuspendedWaitLasts.
const suspended = 34 * time.Millisecond

// TestSuspendedWaitLasts goes through what may happen to a wait that is suspended. Each
// script leaves it going on, and returns for how long its limit has counted by then: never
// for longer than that, or it would be early, and for shorter by a tick or so.
func TestSuspendedWaitLasts(t *testing.T) {
	const limit, a, b = 2 * time.Second, 813 * time.Millisecond, 206 * time.Millisecond
	policy := Policy{ReadTimeout: limit, WriteTimeout: limit}
	scripts := map[string]struct {
		script func(s *suspender) (lasted time.Duration)
		exact  bool // it has been resumed before, so that only the deadline is rounded
		write  bool // for writes only
	}{
		"the first time": {script: func(s *suspender) time.Duration {
			s.wait(a) // in which nobody waits
			s.await()
			s.wait(b)
			s.suspend()
			s.wait(suspended)
			s.resume()
			return b
		}},
		"twice": {exact: true, script: func(s *suspender) time.Duration {
			s.resume()
			s.wait(a)
			s.suspend()
			s.wait(suspended)
			s.resume()
			s.wait(b)
			return a + b
		}},
		"after a byte": {script: func(s *suspender) time.Duration {
			s.await()
			s.wait(a)
			s.arrive()
			s.wait(b)
			s.suspend()
			s.wait(suspended)
			s.resume()
			return b
		}},
		"after a byte in what was resumed": {script: func(s *suspender) time.Duration {
			s.resume()
			s.wait(a)
			s.suspend()
			s.resume()
			s.wait(a)
			s.arrive()
			s.wait(b)
			s.suspend()
			s.wait(suspended)
			s.resume()
			return b
		}},
		"what is no wait": {exact: true, script: func(s *suspender) time.Duration {
			s.resume()
			s.wait(a)
			s.suspend()
			s.resume()
			s.pause()
			s.suspend()
			s.wait(suspended)
			s.resume()
			return 0
		}},
		"after it began anew": {write: true, script: func(s *suspender) time.Duration {
			s.resume()
			s.wait(a)
			s.suspend()
			s.resume()
			s.wait(b)
			s.do(s.RestartWrite)
			s.wait(b)
			s.suspend()
			s.wait(suspended)
			s.resume()
			return b
		}},
		"in a phase that was entered as it was resumed": {script: func(s *suspender) time.Duration {
			next := s.phaseOf(policy)
			s.resume()
			s.wait(7 * time.Millisecond)
			s.do(func() { s.Enter(next) })
			s.wait(b)
			s.suspend()
			s.wait(suspended)
			s.resume()
			return b
		}},
	}
	for name, c := range scripts {
		for _, write := range []bool{false, true} {
			if c.write && !write {
				continue
			}
			t.Run(fmt.Sprintf("%s, write %v", name, write), func(t *testing.T) {
				for offset := range 10 {
					onBoth(t, policy, nil, func(r *rig) {
						s := &suspender{rig: r, peer: r.peer(), suspends: (*Conn).SuspendRead, resumes: (*Conn).ResumeRead,
							awaits: (*Conn).AwaitRead, pauses: (*Conn).PauseRead, arrives: (*Conn).Touch}
						if write {
							s.suspends, s.resumes = (*Conn).SuspendWrite, (*Conn).ResumeWrite
							s.awaits, s.pauses, s.arrives = (*Conn).AwaitWrite, (*Conn).PauseWrite, (*Conn).TouchOut
						}
						r.do(s.PauseRead)
						r.wait(r.opts.Tick + time.Duration(offset)*r.opts.Tick/10)
						lasted := c.script(s)
						begun := time.Now().Add(-lasted)
						why := ReasonRead
						if write {
							why = ReasonWrite
						}
						r.dies(s.peer, begun, limit, why)
						if late := s.at.Sub(begun) - limit; c.exact && late > r.opts.Tick+r.clock.Slack {
							r.Errorf("offset %d/10: it was %v late", offset, late)
						}
					})
				}
			})
		}
	}
}

// TestTotalOfSuspendedWaits: a reader waits for a fifth of each tick, and is never found waiting
// by a pass. ReadTotal ends it all the same, soon after its waits have taken so long together.
func TestTotalOfSuspendedWaits(t *testing.T) {
	const total, wait = time.Second, 2 * time.Millisecond
	onBoth(t, Policy{ReadTotal: total}, nil, func(r *rig) {
		p := r.peer()
		r.do(p.PauseRead)
		r.wait(r.opts.Tick*3/10 - time.Duration(r.clock.Elapsed())%r.opts.Tick + r.opts.Tick)
		var w Wait
		waited := time.Duration(0)
		for ; len(p.expired) == 0 && waited < 2*total; waited += wait {
			r.do(func() { p.ResumeRead(&w) })
			r.wait(wait)
			r.do(func() { p.SuspendRead(&w) })
			r.wait(r.opts.Tick - wait)
		}
		if waited < total || waited > total+3*r.opts.Tick {
			t.Errorf("ended %v after waits of %v; the limit is %v", p.expired, waited, total)
		}
	})
}

// TestSuspendBesideRate suspends waits for longer than the Grace of a minimum rate, but not than
// ReadTimeout or WriteTimeout. These go on, though bytes that were received before have paid for the rate.
func TestSuspendBesideRate(t *testing.T) {
	const limit = 10 * time.Second
	rate := Rate{BytesPerSecond: 1000, Grace: time.Second}
	for reason, policy := range map[Reason]Policy{
		ReasonRead:  {ReadTimeout: limit, MinReadRate: rate},
		ReasonWrite: {WriteTimeout: limit, MinWriteRate: rate},
	} {
		t.Run(reason.String(), func(t *testing.T) {
			onBoth(t, policy, nil, func(r *rig) {
				p := r.peer()
				suspend, resume := p.SuspendRead, p.ResumeRead
				r.do(func() { p.Received(50_000) }) // 50 s
				if reason == ReasonWrite {
					suspend, resume = p.SuspendWrite, p.ResumeWrite
					r.do(func() { p.AwaitWrite(); p.Sent(50_000) })
				}
				var w Wait
				waited := time.Duration(0)
				for ; len(p.expired) == 0 && waited < 2*limit; waited += 4 * time.Second {
					r.wait(4 * time.Second)
					r.do(func() { suspend(&w) })
					r.wait(2 * time.Second)
					r.do(func() { resume(&w) })
				}
				if len(p.expired) != 1 || p.expired[0].Reason != reason || waited > limit+2*time.Second {
					r.Errorf("after waits of %v: %v", waited, p.expired)
				}
			})
		})
	}
}
