package idle

import (
	"testing"
	"time"
)

// TestRateCountsFromTheEndOfAStaleStamp has a phase entered, and a wait begin,
// while the driver stands still and stamps are old. That the wait has begun
// later than its stamp must not be forgotten when another one follows it.
func TestRateCountsFromTheEndOfAStaleStamp(t *testing.T) {
	const limit = time.Second
	for name, renew := range map[string]func(*Conn){
		"renewed": (*Conn).BeginRead,
		"paused":  func(c *Conn) { c.PauseRead(); c.AwaitRead() },
	} {
		t.Run(name, func(t *testing.T) {
			onDriver(t, Policy{IdleTimeout: 100 * time.Millisecond}, nil, func(r *rig) {
				s := &staller{stall: func() { time.Sleep(200 * time.Millisecond) }}
				r.track(&s.Conn, s)
				p := r.peer()
				p.Enter(r.phaseOf(Policy{ReadTotal: limit}))
				p.PauseRead()
				for s.Live() {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(180 * time.Millisecond) // the stall goes on
				entered := time.Now()
				p.Enter(r.phaseOf(Policy{ReadTotal: limit}))
				p.AwaitRead()
				time.Sleep(100 * time.Millisecond)
				p.Touch()
				renew(&p.Conn)
				const stalled = 20 * time.Millisecond // after that, so that much later
				r.wait(limit + stalled + r.late())
				if len(p.expired) != 1 || p.at.Sub(entered) < limit {
					r.Errorf("ended after %v by %v", p.at.Sub(entered), p.expired)
				}
			})
		})
	}
}

// TestAskedWaiterCountsFromTheEndOfAStaleStamp is the same for a wait of which it
// is found out that it has ended.
func TestAskedWaiterCountsFromTheEndOfAStaleStamp(t *testing.T) {
	const limit = time.Second
	onDriver(t, Policy{IdleTimeout: 100 * time.Millisecond}, nil, func(r *rig) {
		s := &staller{stall: func() { time.Sleep(200 * time.Millisecond) }}
		r.track(&s.Conn, s)
		w := r.waiter()
		w.Enter(r.phaseOf(Policy{ReadTotal: limit}))
		w.PauseRead()
		for s.Live() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(180 * time.Millisecond) // the stall goes on
		w.Enter(r.phaseOf(Policy{ReadTotal: limit}))
		w.BeginRead()
		time.Sleep(100 * time.Millisecond)
		w.Touch()
		r.lives(&w.peer, 2*limit)
		w.read = true
		w.BeginRead()
		begun := time.Now()
		r.wait(limit)
		if lived := w.at.Sub(begun); len(w.expired) != 1 || lived < limit-100*time.Millisecond-r.late() {
			r.Errorf("ended after %v by %v", lived, w.expired)
		}
	})
}

// TestWaitWithinAStaleStamp has a wait begin while the clock's copy is stale, in the
// stamp in which the wait before it began, from which it cannot be told then. The
// time between the two must not count, however the wait goes on.
func TestWaitWithinAStaleStamp(t *testing.T) {
	const limit, rest = time.Second, 150 * time.Millisecond
	for name, of := range map[string]struct {
		policy Policy
		goOn   func(*patient)
	}{
		"another wait follows": {Policy{ReadTotal: limit}, func(p *patient) { p.Touch(); p.BeginRead() }},
		"it is begun anew":     {Policy{ReadTotal: limit, ReadTimeout: limit / 2}, func(*patient) {}},
	} {
		t.Run(name, func(t *testing.T) {
			onDriver(t, Policy{IdleTimeout: 100 * time.Millisecond}, nil, func(r *rig) {
				p := &patient{}
				r.track(&p.Conn, p)
				p.Enter(r.phaseOf(of.policy))
				p.PauseRead()
				s := &staller{stall: func() { time.Sleep(200 * time.Millisecond) }}
				r.track(&s.Conn, s)
				for s.Live() {
					time.Sleep(time.Millisecond)
				}
				p.BeginRead() // and a byte comes at once
				p.Touch()
				time.Sleep(rest)
				begun := time.Now()
				p.BeginRead()
				time.Sleep(100 * time.Millisecond) // the stall is over
				of.goOn(p)
				r.wait(time.Until(begun.Add(limit)))
				if len(p.expired) > 0 {
					r.Errorf("ended %v early by %v", begun.Add(limit).Sub(p.at), p.expired)
				}
				r.wait(rest + 2*limit/3)
				if len(p.expired) != 1 || p.expired[0].Reason != ReasonReadTotal {
					r.Errorf("ended by %v", p.expired)
				}
			})
		})
	}
}

// A patient owner always waits for a read, and keeps what does not read.
type patient struct{ peer }

func (*patient) Waiting() (read, write bool) { return true, false }
func (*patient) Keep(err *TimeoutError) bool { return err.Reason == ReasonRead }
