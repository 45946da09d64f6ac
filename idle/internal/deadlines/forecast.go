package deadlines

// A Forecast says what happens to a connection if nothing moves: no byte, no beat, no close.
type Forecast struct {
	Next Deadline // of the first thing that happens
	End  Deadline // by which the connection ends; Terms is nil if it does not
}

// Forecast computes what happens to s under the given limits. If nothing moves, no limit depends
// on another one, so the connection ends at the earliest of their ends.
func (s *Snapshot) Forecast(of []Terms) (f Forecast) {
	s.silent = true
	f.Next = Next(s, of)
	for i := range of {
		d := Next(s, of[i:i+1])
		if d.Terms == nil {
			continue
		}
		if d.What != End {
			d = s.endAfter(d)
		}
		if f.End.Terms == nil || d.At < f.End.At {
			f.End = d
		}
	}
	return f
}

// endAfter returns when a limit ends the connection, if d is the limit's next event. Each event
// happens in a pass, so not before s.Now, and the next event counts from the end of that tick.
func (s *Snapshot) endAfter(d Deadline) Deadline {
	t, left := d.Terms, 0 // misses that are left after d
	switch d.What {
	case Ping:
		left = t.Misses
	case Miss:
		left = t.Misses - s.Misses - 1
	case Drain:
		at := max(d.At, s.Now) + 1 + t.Grace
		return Deadline{At: at, From: at - (d.At - d.From) - t.Grace, What: End, Terms: t}
	}
	return Deadline{At: max(d.At, s.Now) + int64(left)*(t.Pong+1), From: s.End(s.In.Last), What: End, Terms: t}
}
