package main

import "time"

// A slab of connections is touched in one go, between two readings of the
// clock, so that the load is made of touches and not of clock readings.
const slab = 64

// A sweeper plays some mock connections: it comes past each, and does what its life
// says.
type sweeper struct {
	load               *load
	touch, beat, leave []*peer // what a slab has to do
	work, rest         []*peer
}

// sweep comes past connections slab by slab.
func (s *sweeper) sweep(from, to int) {
	to = min(to, int(s.load.begun.Load()))
	for ; from < to; from += slab {
		s.pass(from, min(from+slab, to))
	}
}

// pass comes past a slab of connections.
func (s *sweeper) pass(from, to int) {
	s.touch, s.beat, s.leave = s.touch[:0], s.beat[:0], s.leave[:0]
	s.work, s.rest = s.work[:0], s.rest[:0]
	now := s.load.now()
	for i := from; i < to; i++ {
		p := &s.load.peers[i]
		if p.ended() {
			continue
		}
		switch p.does(now, s.load.cfg) {
		case touches, talks:
			s.touch = append(s.touch, p)
		case beats:
			s.beat = append(s.beat, p)
		case leaves:
			s.leave = append(s.leave, p)
		case works:
			s.work = append(s.work, p)
		case rests:
			s.rest = append(s.rest, p)
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
		if s.load.conn(p).Stop() {
			s.load.part.left(p, s.load.now())
		}
	}
	s.passWork()
}

// passWork has workers begin and finish. Both are activities. They are noted as busy
// no longer than they are.
func (s *sweeper) passWork() {
	for _, p := range s.work {
		c, before := s.load.conn(p), s.load.now()
		c.Touch()
		c.PauseRead()
		p.state.CompareAndSwap(open, working)
		s.load.oracle.touched(p, before, s.load.now())
	}
	for _, p := range s.rest {
		c, before := s.load.conn(p), s.load.now()
		c.Touch()
		s.load.oracle.touched(p, before, s.load.now())
		p.state.CompareAndSwap(working, rested)
		c.AwaitRead()
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
