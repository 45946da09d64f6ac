package idle

import "sync"

// A connSet is all connections of a shard that have not ended, and those that linger until
// they are reaped. The shard's lock guards it. On a loop that does nothing, but others may look at
// all with lock held.
//
// A walk visits them from the last to the first, some at a time. What it has not visited yet
// is always all[:unvisited]. So a connection that is there when the walk begins, and stays,
// is visited exactly once. One that comes later is not visited.
type connSet struct {
	lock      sync.Locker // held while all changes; does nothing where the lane's lock does
	all       []*Conn
	unvisited int // by the walk that is under way, if any
}

// leastConns is the capacity below which a connSet does not shrink.
const leastConns = 1024

// add adds c, which must not be in a connSet.
func (s *connSet) add(c *Conn) {
	s.lock.Lock()
	defer s.lock.Unlock()
	c.index = uint32(len(s.all))
	s.all = append(s.all, c)
}

// remove removes c, if it is there.
func (s *connSet) remove(c *Conn) {
	s.lock.Lock()
	defer s.lock.Unlock()
	i := int(c.index)
	if i >= len(s.all) || s.all[i] != c {
		return
	}
	if i < s.unvisited { // fill its place with one that is not visited either, which leaves a place among the visited
		s.unvisited--
		s.put(i, s.all[s.unvisited])
		i = s.unvisited
	}
	last := len(s.all) - 1
	if i < last {
		s.put(i, s.all[last])
	}
	s.all[last] = nil
	s.all = s.all[:last]
	if n := cap(s.all); n > leastConns && last < n/4 {
		s.all = append(make([]*Conn, 0, n/2), s.all...)
	}
}

// put puts c in the place i.
func (s *connSet) put(i int, c *Conn) { s.all[i], c.index = c, uint32(i) }

// beginWalk makes all connections unvisited.
func (s *connSet) beginWalk() { s.unvisited = len(s.all) }

// visit returns up to n connections that the walk has not visited, which it has then.
func (s *connSet) visit(n int) []*Conn {
	to := s.unvisited
	s.unvisited = max(0, to-n)
	return s.all[s.unvisited:to]
}

// last returns one of the connections, or nil if there are none.
func (s *connSet) last() *Conn {
	if len(s.all) == 0 {
		return nil
	}
	return s.all[len(s.all)-1]
}
