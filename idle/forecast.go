package idle

// A forecast is what happens to a connection if nothing moves: no byte, no beat, no
// close.
type forecast struct {
	next deadline // of the first thing that happens
	end  deadline // by which the connection ends; terms is nil if it does not
}

// forecast computes what happens to s under the given limits. If nothing moves, no limit
// depends on another one. So the connection ends by the one that ends it first.
func (s *snapshot) forecast(of []terms) (f forecast) {
	s.silent = true
	f.next = next(s, of)
	for i := range of {
		d := next(s, of[i:i+1])
		if d.terms == nil {
			continue
		}
		if d.what != end {
			d = s.endAfter(d)
		}
		if f.end.terms == nil || d.at < f.end.at {
			f.end = d
		}
	}
	return f
}

// endAfter returns the end by the limit of which d is an earlier event. Each event happens
// when a pass does it, so not before s.now, and what follows counts from the end of that
// tick.
func (s *snapshot) endAfter(d deadline) deadline {
	t, left := d.terms, 0 // misses that are left after d
	switch d.what {
	case ping:
		left = t.misses
	case miss:
		left = t.misses - misses(s.state) - 1
	case drain:
		at := max(d.at, s.now) + 1 + t.grace
		return deadline{at: at, from: at - (d.at - d.from) - t.grace, what: end, terms: t}
	}
	return deadline{at: max(d.at, s.now) + int64(left)*(t.pong+1), from: s.end(s.in.last), what: end, terms: t}
}
