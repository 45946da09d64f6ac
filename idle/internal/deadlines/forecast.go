package deadlines

// Ends returns the deadline by which the connection ends if nothing moves: no byte, no beat, no
// close. Its Terms are nil if it doesn't end. Ends goes from one event to the next, because an
// owner that is asked to finish by a drain has been asked for MaxAge too.
func (s Snapshot) Ends(of []Terms) Deadline {
	s.still = true
	for {
		d := Next(&s, of)
		s.Now = max(s.Now, d.At) // events happen in passes, so not before now
		switch d.What {
		case End:
			return d
		case Ping:
			s.Pinged, s.Unanswered, s.Misses = s.Now, true, 0
		case Miss:
			s.Pinged, s.Misses = s.Now, s.Misses+1
		case Tell:
			s.Told = s.Now
		default:
			return Deadline{}
		}
	}
}
