package idle

// A forecast is what happens to a connection if nothing moves: no byte, no beat, no
// close.
type forecast struct {
	next deadline // of the first thing that happens
	end  deadline // by which the connection ends; terms is nil if it does not
}

// mostEvents is how many events a forecast follows. An active heartbeat has the most:
// a ping, and maxMisses misses.
const mostEvents = maxMisses + 16

// forecast computes what happens to s under the given limits. It changes s, to what it
// will be at the end.
func (s *snapshot) forecast(of []terms) (f forecast) {
	f.next = next(s, of)
	for d, n := f.next, 0; n < mostEvents; d, n = next(s, of), n+1 {
		s.now = max(s.now, d.at)
		switch {
		case d.terms == nil:
			return f
		case d.what == end:
			f.end = d
			return f
		case d.what == ping:
			s.state = s.state&^missMask | unanswered
			s.pinged = s.now
		case d.what == miss:
			s.state += missUnit
			s.pinged = s.now
		case d.what == drain:
			s.state |= draining
			s.born = s.now - (d.at - d.from)
		}
	}
	return f
}
