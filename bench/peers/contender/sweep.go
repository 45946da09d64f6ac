package contender

import (
	"sync"
	"time"
)

// sweep is what users of gnet, which has no timeouts, are told to do: a map of
// when each connection was last active, and somebody who goes through it.
type sweep struct {
	timeout time.Duration
	expired func(int)
	stop    chan struct{}

	mu     sync.Mutex
	active map[*sweepConn]time.Time
	conns  []sweepConn
}

type sweepConn struct{ index int }

const sweepPeriod = time.Second

func sweepKind() Kind {
	return Kind{
		Name: "map-sweep",
		What: "a map from connection to time under a mutex, swept once a second",
		Note: "is late by up to a second, its period",
		New: func(timeout time.Duration, expired func(int)) (Contender, error) {
			s := &sweep{timeout: timeout, expired: expired, stop: make(chan struct{}), active: make(map[*sweepConn]time.Time)}
			go every(sweepPeriod, s.stop, s.sweep)
			return s, nil
		},
	}
}

func (s *sweep) Open(n int) error {
	s.conns = make([]sweepConn, n)
	for i := range s.conns {
		s.conns[i].index = i
	}
	return nil
}

func (s *sweep) Arm(i int) error {
	s.note(&s.conns[i])
	return nil
}

func (s *sweep) Touch(list []uint32) {
	for _, i := range list {
		s.note(&s.conns[i])
	}
}

func (s *sweep) note(c *sweepConn) {
	s.mu.Lock()
	s.active[c] = time.Now()
	s.mu.Unlock()
}

func (s *sweep) Cancel(i int) {
	s.mu.Lock()
	delete(s.active, &s.conns[i])
	s.mu.Unlock()
}

func (s *sweep) sweep() {
	for _, c := range s.takeStale() {
		s.expired(c.index)
	}
}

func (s *sweep) takeStale() (stale []*sweepConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for c, active := range s.active {
		if now.Sub(active) >= s.timeout {
			delete(s.active, c)
			stale = append(stale, c)
		}
	}
	return stale
}

func (s *sweep) Close() { close(s.stop) }
