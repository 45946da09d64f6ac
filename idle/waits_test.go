package idle

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// These tests have waits and pauses that are shorter than a tick, for limits that count the time waited in all. Such a
// limit must hold on both sides: a peer that is never slow must not be cut because of how its pieces fall on the
// ticks, and one that trickles must not live much longer because of it. A rate is checked in a pass, if there is a wait
// then, so the waits are shaken a little: none keeps in step with the ticks.

// waitLoop is what a reader of small pieces does again and again.
type waitLoop struct{ wait, pause time.Duration }

// trickled has a peer live in a loop of waits, beginning at an offset within the
// tick, until it is timed out, and returns how long it was waited for in all.
func trickled(r *rig, p *peer, l waitLoop, offset, most time.Duration, await, pause func(), piece func()) (waited time.Duration) {
	rng := rand.New(rand.NewPCG(uint64(offset), 0))
	shaken := func(d time.Duration) time.Duration { return d/2 + time.Duration(rng.Int64N(int64(d)+1)) }
	r.wait(r.opts.Tick + offset)
	for waited < most {
		begun, wait := time.Now(), shaken(l.wait)
		r.do(await)
		r.wait(wait)
		if len(p.expired) > 0 {
			return waited + p.at.Sub(begun)
		}
		waited += wait
		r.do(func() { piece(); pause() })
		r.wait(shaken(l.pause))
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
	step := 1
	if raceEnabled && testing.Short() {
		step = 5
	}
	for name, policy := range map[string]Policy{"read rate": {MinReadRate: rate}, "write rate": {MinWriteRate: rate}} {
		for _, tick := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond} {
			for _, l := range waitLoops {
				t.Run(fmt.Sprint(name, " ", l, " tick ", tick), func(t *testing.T) {
					for offset := 0; offset < 10; offset += step {
						onBoth(t, policy, &Options{Tick: tick}, func(r *rig) {
							p, measured := r.peer(), offset%2 == 1
							if measured {
								p.measure()
							}
							r.do(p.PauseRead)
							await, pause, piece := p.AwaitRead, p.PauseRead, p.Touch
							if name == "write rate" {
								await, pause, piece = p.AwaitWrite, p.PauseWrite, p.TouchOut
							}
							waited := trickled(r, p, l, time.Duration(offset)*tick/10, 2*limit, await, pause, piece)
							// In each tick of waiting, a pass comes in a wait about once.
							most := limit + 12*tick + tick/clock.SlackShare + 2*l.wait
							if !measured {
								most += limit/8 + r.late()
							}
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

// TestShortPausesAreMeasured: a peer pays for less time than passes, but for more than it is waited for. In its short
// pauses it looks slow, so its waits are measured, and it isn't ended. One that pays for all time isn't measured.
func TestShortPausesAreMeasured(t *testing.T) {
	for piece, measured := range map[int]bool{5: true, 11: false} {
		onBoth(t, Policy{MinReadRate: Rate{BytesPerSecond: 1000, Grace: time.Second}}, nil, func(r *rig) {
			p := r.peer()
			for range 10_000 {
				r.lives(p, 2*time.Millisecond)
				r.do(func() { p.Received(piece); p.PauseRead() })
				r.lives(p, 8*time.Millisecond)
				r.do(p.AwaitRead)
			}
			if p.isExact() != measured {
				r.Errorf("%d bytes each 10 ms: measured: %v", piece, p.isExact())
			}
		})
	}
}

// TestPausesInStepWithTheTicks: a peer that trickles doesn't seem to pause for longer than it does because a tick begins in each
// of its pauses. The clock sleeps, so that it isn't the pass that falls into them.
func TestPausesInStepWithTheTicks(t *testing.T) {
	onBoth(t, Policy{MinReadRate: Rate{BytesPerSecond: 100, Grace: time.Second}}, &Options{Tick: 10 * time.Millisecond}, func(r *rig) {
		p, pause := r.peer(), time.Millisecond
		r.wait(time.Duration(r.clock.Now()+2)*r.opts.Tick - pause/2 - r.clock.Elapsed())
		waited := time.Duration(0)
		for ; len(p.expired) == 0 && waited < 2*time.Second; waited += r.opts.Tick - pause {
			r.do(p.PauseRead)
			r.wait(pause)
			r.do(p.AwaitRead)
			r.wait(r.opts.Tick - pause)
		}
		if len(p.expired) == 0 || !r.clock.Sleeping() {
			r.Errorf("not ended after %v of waiting; the clock sleeps: %v", waited, r.clock.Sleeping())
		}
	})
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
