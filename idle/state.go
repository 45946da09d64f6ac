package idle

import "sync/atomic"

// state is what a connection is in. The low bits are flags, then come the
// misses of the heartbeat, then a generation, by which work that was begun for
// a connection knows one that has taken its place.
type state struct{ atomic.Uint32 }

const (
	live     = 1 << iota // tracked, and no outcome yet
	expired              // timed out, and waiting for its owner to close it
	asking               // a callback that may keep it is running
	pinging              // a callback that pings is running
	pinged               // a ping is unanswered
	granted              // it was let live for its unread input
	draining             // it passed its age, and its grace runs

	missUnit = 1 << 8
	missMask = 0xff * missUnit
	flags    = missUnit - 1
	genUnit  = 1 << 16
	genMask  = 0xffff * genUnit
)

func misses(s uint32) int { return int(s & missMask / missUnit) }

// sameGen tells whether two states are of the same tracking of a connection.
func sameGen(a, b uint32) bool { return a&genMask == b&genMask }

// start opens a new generation, and fails if the last one has not ended.
func (s *state) start() bool {
	was := s.Load()
	return was&(live|expired) == 0 && s.CompareAndSwap(was, was&genMask+genUnit|live)
}

// end closes a generation and returns what it was in, false if it was closed.
func (s *state) end() (was uint32, ok bool) {
	for {
		was = s.Load()
		if was&(live|expired) == 0 {
			return was, false
		}
		if s.CompareAndSwap(was, was&genMask) {
			return was, true
		}
	}
}

// set sets and clears bits, whatever the generation.
func (s *state) set(set, clear uint32) {
	for {
		was := s.Load()
		next := was&^clear | set
		if was == next || s.CompareAndSwap(was, next) {
			return
		}
	}
}

// move sets and clears bits if the generation is that of gen, and all of the
// bits in need are set and none of those in set; it reports whether it did.
func (s *state) move(gen, need, set, clear uint32) bool {
	for {
		was := s.Load()
		if !sameGen(was, gen) || was&need != need || was&set != 0 {
			return false
		}
		if s.CompareAndSwap(was, was&^clear|set) {
			return true
		}
	}
}

// mark sets bits, set already or not, if the generation is that of gen.
func (s *state) mark(gen, bits uint32) {
	s.move(gen, 0, bits, 0)
}

// addMiss counts a miss and returns how many there are, 0 if the generation is
// no longer that of gen.
func (s *state) addMiss(gen uint32) int {
	for {
		was := s.Load()
		if !sameGen(was, gen) {
			return 0
		}
		if misses(was) >= maxMisses {
			return maxMisses
		}
		if s.CompareAndSwap(was, was+missUnit) {
			return misses(was + missUnit)
		}
	}
}
