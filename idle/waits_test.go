package idle

import (
	"fmt"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// These tests have waits and pauses that are shorter than a tick, at all
// phases of their loop, for limits that count the time waited in all. Such a
// limit must hold on both sides: a peer that is never slow must not be cut
// because of how its pieces fall on the ticks, and one that trickles must not
// live longer because of it.

// waitLoop is what a reader of small pieces does again and again.
type waitLoop struct{ wait, pause time.Duration }

// trickled has a peer live in a loop of waits, beginning at an offset within the
// tick, until it is timed out, and returns how long it was waited for in all.
func trickled(r *rig, p *peer, l waitLoop, offset, most time.Duration, await, pause func(), piece func()) (waited time.Duration) {
	r.wait(r.opts.Tick + offset)
	for waited < most {
		begun := time.Now()
		r.do(await)
		r.wait(l.wait)
		if len(p.expired) > 0 {
			return waited + p.at.Sub(begun)
		}
		waited += l.wait
		r.do(func() { piece(); pause() })
		r.wait(l.pause)
		if len(p.expired) > 0 {
			return waited
		}
	}
	return waited
}

var waitLoops = []waitLoop{
	{time.Millisecond, 9 * time.Millisecond},
	{5 * time.Millisecond, 5 * time.Millisecond},
	{9 * time.Millisecond, time.Millisecond},
	{9 * time.Millisecond, 0}, // a byte every 9 ms, as an attacker sends
	{3 * time.Millisecond, 4 * time.Millisecond},
	{25 * time.Millisecond, 25 * time.Millisecond},
}

func TestWaitsShorterThanATick(t *testing.T) {
	const limit = 2 * time.Second
	rate := Rate{BytesPerSecond: 100, Grace: limit}
	cases := map[string]struct {
		policy Policy
		piece  int // bytes
		write  bool
	}{
		"total":      {Policy{ReadTotal: limit}, 100, false},
		"read rate":  {Policy{MinReadRate: rate}, 0, false},
		"write rate": {Policy{MinWriteRate: rate}, 0, true},
	}
	step := 1
	if raceEnabled && testing.Short() {
		step = 5
	}
	for name, c := range cases {
		for _, tick := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond} {
			for _, l := range waitLoops {
				t.Run(fmt.Sprint(name, " ", l, " tick ", tick), func(t *testing.T) {
					for offset := 0; offset < 10; offset += step {
						onBoth(t, c.policy, &Options{Tick: tick}, func(r *rig) {
							p := r.peer()
							r.do(p.PauseRead)
							await, pause := p.AwaitRead, p.PauseRead
							piece := func() { p.Received(c.piece) }
							if c.write {
								await, pause = p.AwaitWrite, p.PauseWrite
								piece = func() { p.Sent(c.piece) }
							}
							waited := trickled(r, p, l, time.Duration(offset)*tick/10, 2*limit, await, pause, piece)
							// Three ticks of waiting, and the rest of the loop.
							most := limit + 3*tick + tick/clock.SlackShare + l.wait
							if waited < limit || waited > most {
								r.Errorf("offset %d/10: timed out after %v of waiting (%v); want %v to %v", offset, waited, p.expired, limit, most)
							}
						})
					}
				})
			}
		}
	}
}

// TestLateReadIsNoPassedTotal has the process stand still while bytes arrive in time.
// The owner reads them late, and takes a while to work on them before it enters the
// next phase.
func TestLateReadIsNoPassedTotal(t *testing.T) {
	onBoth(t, Policy{ReadTotal: time.Second}, nil, func(r *rig) {
		next := r.phaseOf(Policy{Name: "next", IdleTimeout: time.Minute})
		p := r.peer()
		r.wait(900 * time.Millisecond)
		r.do(func() {
			r.clock.Shift(500 * time.Millisecond)
			p.Received(10)
			p.PauseRead()
		})
		r.lives(p, time.Second)
		r.do(func() { p.Enter(next) })
		r.lives(p, time.Second)
	})
	t.Run("awaits more", func(t *testing.T) {
		onBoth(t, Policy{ReadTotal: time.Second}, nil, func(r *rig) {
			p := r.peer()
			r.wait(900 * time.Millisecond)
			r.do(func() {
				r.clock.Shift(500 * time.Millisecond)
				p.Received(10)
				p.PauseRead()
				p.AwaitRead()
				p.PauseRead()
			})
			r.wait(100 * time.Millisecond) // after a stall the driver waits for half of that
			if len(p.expired) != 1 || p.expired[0].Reason != ReasonReadTotal {
				r.Errorf("expired by %v", p.expired)
			}
		})
	})
}

// TestSuspendedWait suspends a wait again and again: what it has lasted adds up to the
// limit. It begins anew when a phase is entered, when something arrives, and after an
// interruption that is longer than the limit.
func TestSuspendedWait(t *testing.T) {
	const limit = 2 * time.Second
	policy := Policy{ReadTimeout: limit, WriteTimeout: limit}
	for name, anew := range map[string]func(r *rig, p *peer){
		"goes on":    nil,
		"phase":      func(r *rig, p *peer) { p.Enter(r.phaseOf(policy)) },
		"activity":   func(r *rig, p *peer) { p.Touch(); p.TouchOut() },
		"long after": func(r *rig, p *peer) { time.Sleep(time.Minute) },
	} {
		for way, flow := range map[string]struct {
			suspend, resume func(*Conn, *Wait)
			why             Reason
		}{
			"read":  {(*Conn).SuspendRead, (*Conn).ResumeRead, ReasonRead},
			"write": {(*Conn).SuspendWrite, (*Conn).ResumeWrite, ReasonWrite},
		} {
			t.Run(name+" "+way, func(t *testing.T) {
				onBoth(t, policy, nil, func(r *rig) {
					p, w := r.peer(), new(Wait)
					r.do(p.PauseRead)
					left := limit
					for range 100 {
						r.do(func() { flow.resume(&p.Conn, w) })
						r.wait(7 * time.Millisecond)
						left -= 7 * time.Millisecond
						r.do(func() { flow.suspend(&p.Conn, w) })
						r.wait(4 * time.Millisecond)
					}
					if anew != nil {
						r.do(func() { anew(r, p) })
						left = limit
						r.wait(r.opts.Tick)
					}
					r.wait(limit / 2)
					r.do(func() { flow.resume(&p.Conn, w) })
					r.dies(p, time.Now().Add(left-limit), limit, flow.why)
				})
			})
		}
	}
}

// TestRestartWriteForgetsTheLastResponse: a write that took longer than the Grace doesn't count
// for the next response, whose own write is over in time.
func TestRestartWriteForgetsTheLastResponse(t *testing.T) {
	const grace = 100 * time.Millisecond
	for _, again := range []bool{false, true} {
		inBubble(t, Policy{MinWriteRate: Rate{BytesPerSecond: 1, Grace: grace}}, nil, true, func(r *rig) {
			p := r.peer()
			r.wait(time.Second)
			r.do(func() { // the loop is busy, so no pass runs in between
				if again {
					p.RestartWrite()
					time.Sleep(2 * grace)
					p.PauseWrite()
				}
				p.RestartWrite()
				time.Sleep(2 * grace)
				p.PauseWrite()
			})
			r.wait(time.Second)
			if len(p.expired) != 0 {
				r.Errorf("after another response %v: ended in a pause: %v", again, p.expired)
			}
		})
	}
}
