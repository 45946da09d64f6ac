package main

import (
	"context"
	"time"
)

// A slab of connections is touched in one go, between two readings of the
// clock, so that the load is made of touches and not of clock readings.
const slab = 64

// A sweeper plays the peers of some mock connections: again and again it comes
// past each, and does what its life says.
type sweeper struct {
	load     *load
	from, to int

	touch, beat, leave []*peer // what a slab has to do
}

func (s *sweeper) run(ctx context.Context) {
	period := s.load.cfg.sweepTime()
	for next := time.Now(); sleep(ctx, time.Until(next)); next = later(next.Add(period)) {
		s.sweep(ctx, next, period)
	}
}

// later returns t, or the present time if that is later: a sweep that takes
// longer than it should is not made up for.
func later(t time.Time) time.Time {
	if now := time.Now(); now.After(t) {
		return now
	}
	return t
}

// sweep comes past every connection once, evenly over the period.
func (s *sweeper) sweep(ctx context.Context, begun time.Time, period time.Duration) {
	const paced = 32 * slab // how many connections go between two looks at the pace
	for i := s.from; i < s.to; i += slab {
		if (i-s.from)%paced == 0 {
			share := float64(i-s.from) / float64(s.to-s.from)
			ahead := time.Until(begun.Add(time.Duration(share * float64(period))))
			if ahead < time.Millisecond {
				ahead = 0
			}
			if !sleep(ctx, ahead) {
				return
			}
		}
		s.pass(i, min(i+slab, s.to, int(s.load.begun.Load())))
	}
}

// pass comes past a slab of connections.
func (s *sweeper) pass(from, to int) {
	s.touch, s.beat, s.leave = s.touch[:0], s.beat[:0], s.leave[:0]
	now := s.load.now()
	for i := from; i < to; i++ {
		p := &s.load.peers[i]
		if p.ended() {
			continue
		}
		switch p.does(now, s.load.cfg.Idle) {
		case touches, talks:
			s.touch = append(s.touch, p)
		case beats:
			s.beat = append(s.beat, p)
		case leaves:
			s.leave = append(s.leave, p)
		}
	}
	before := s.load.now()
	for _, p := range s.touch {
		s.load.conn(p).Touch()
	}
	touched := s.load.now()
	for _, p := range s.beat {
		s.load.conn(p).Beat()
	}
	after := s.load.now()
	s.note(before, after)
	s.load.touches.Add(int64(len(s.touch) + len(s.beat)))
	if n := int64(len(s.touch)); n >= slab/4 { // else it is the clock that is measured
		s.load.perSlab.Add(time.Duration((touched - before) * slab / n))
	}
	for _, p := range s.leave {
		if s.load.conn(p).Close() {
			s.load.oracle.left(p)
		}
	}
}

// note tells the oracle what a slab has done. A beater's touch counts nothing.
func (s *sweeper) note(before, after int64) {
	for _, p := range s.touch {
		if p.kind != beater {
			s.load.oracle.touched(p, before, after)
		}
	}
	for _, p := range s.beat {
		s.load.oracle.touched(p, before, after)
	}
}
