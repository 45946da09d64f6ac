package idle

// A forecast is what happens to a connection if nothing moves: no byte, no beat, no
// close.
type forecast struct {
	next deadline // of the first thing that happens
	end  deadline // by which the connection ends; terms is nil if it does not
}

// mostEvents is how many events a forecast follows. An active heartbeat has the most: a
// ping, maxMisses less one, and the end. One more is the start of a grace.
const mostEvents = maxMisses + 2

// forecast computes what happens to s under the given limits. It changes s, to what it
// will be at the end.
func (s *snapshot) forecast(of []terms) (f forecast) {
	s.silent = true
	for range mostEvents {
		d := next(s, of)
		if d.terms == nil {
			return f
		}
		if f.next.terms == nil {
			f.next = d
		}
		s.now = max(s.now, d.at)
		switch d.what {
		case end:
			f.end = d
			return f
		case ping:
			s.state = s.state&^missMask | unanswered
			s.pinged = s.now
		case miss:
			s.state += missUnit
			s.pinged = s.now
		case drain:
			s.state |= draining
			s.born = s.now - (d.at - d.from)
		}
	}
	return f
}
