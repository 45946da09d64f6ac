package simulation

import (
	"context"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A simStill is a time at the end of a world in which nothing happens but what the tracker
// does, and the census at its beginning.
type simStill struct {
	census *idle.Census
	over   time.Duration   // when the census was, since it had begun
	passed []time.Duration // when limits were passed, for the first time each, since then too
	spoilt bool            // something happened all the same
}

// beStill takes a census, unless something may happen yet that is no limit.
func (w *world) beStill() {
	if w.stalls {
		return
	}
	w.mu.Lock()
	if w.seed%4 == 0 { // in the others operations go on to their ends
		for _, o := range w.ops {
			w.cancel(o)
		}
		if err := w.tracker.SetCapacity(idle.Capacity{}); err != nil {
			w.errorf("at %v: %v", w.now(), err)
		}
		w.noteCapacity(idle.Capacity{})
	}
	w.mu.Unlock()
	time.Sleep(4*w.tick + w.tick/3)
	w.mu.Lock()
	w.checkOps()
	moving := len(w.ops) > 0 || w.capacity.now.MaxConns > 0 || slices.ContainsFunc(w.slots, func(s *slot) bool {
		l := s.life
		return l != nil && l.live() && (l.asked || l.byHand > 0 || l.pinged || l.telling ||
			l.isUnread() || l.ledger.replaced > 0 && w.now() <= l.ledger.read.walks)
	})
	w.mu.Unlock()
	if moving {
		return
	}
	w.mu.Lock()
	for _, s := range w.slots {
		if s.life != nil {
			s.life.stillFrom = s.life.moved
		}
	}
	w.mu.Unlock()
	c, err := w.tracker.Census(context.Background(), idle.Query{})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.errorf("at %v: %v", w.now(), err)
		return
	}
	w.still = &simStill{census: c, over: time.Since(c.At)}
}

// hasPassed notes that l has passed a limit; w.mu is held.
func (l *life) hasPassed() {
	v := l.world.still
	if v == nil || l.stillFrom < 0 {
		return
	}
	v.spoilt = v.spoilt || l.stillFrom != l.moved
	v.passed = append(v.passed, time.Since(v.census.At))
	l.stillFrom = -1 // what comes after it has been kept is another matter
}

// checkStill holds the forecast against what has happened.
func (w *world) checkStill() {
	v := w.still
	if v == nil || v.spoilt {
		return
	}
	c := v.census
	middle := w.tick/2 - (c.At.Sub(w.start)-slackOf(w.tick))%w.tick // of a tick, as forecasts are counted
	for middle <= v.over {
		middle += w.tick
	}
	before := c.Ending(middle)
	for d := middle; d < forecastFor-w.tick; d += w.tick {
		passed := 0
		for _, at := range v.passed {
			if at > middle && at <= d {
				passed++
			}
		}
		if n := c.Ending(d) - before; n != passed {
			w.errorf("from %v to %v after the last census, %d were to end; %d did: %v", middle, d, n, passed, v.passed)
			return
		}
	}
	w.stillEnded += len(v.passed)
}
