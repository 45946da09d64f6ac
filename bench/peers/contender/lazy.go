package contender

import (
	"sync/atomic"
	"time"
)

// lazy is what can be done about the cost of Reset with the standard library
// alone: an activity notes the time, and a timer that fires too soon because of
// it goes on for the rest.
type lazy struct {
	timeout time.Duration
	expired func(int)
	start   time.Time
	conns   []lazyConn
}

type lazyConn struct {
	active atomic.Int64 // since start
	timer  atomic.Pointer[time.Timer]
	in     *lazy
	index  int
}

func lazyKind() Kind {
	return Kind{
		Name: "AfterFunc-lazy",
		What: "time.Now noted at every activity, and a time.AfterFunc that goes on if it fires too soon",
		New: func(timeout time.Duration, expired func(int)) (Contender, error) {
			return &lazy{timeout: timeout, expired: expired, start: time.Now()}, nil
		},
	}
}

func (l *lazy) Open(n int) error {
	l.conns = make([]lazyConn, n)
	for i := range l.conns {
		l.conns[i].in, l.conns[i].index = l, i
	}
	return nil
}

func (l *lazy) Arm(i int) error {
	c := &l.conns[i]
	c.active.Store(int64(time.Since(l.start)))
	c.timer.Store(time.AfterFunc(l.timeout, c.fire))
	return nil
}

func (c *lazyConn) fire() {
	idle := time.Since(c.in.start) - time.Duration(c.active.Load())
	if idle < c.in.timeout {
		c.timer.Load().Reset(c.in.timeout - idle)
		return
	}
	c.in.expired(c.index)
}

func (l *lazy) Cancel(i int) { l.conns[i].timer.Load().Stop() }

func (l *lazy) Touch(list []uint32) {
	for _, i := range list {
		l.conns[i].active.Store(int64(time.Since(l.start)))
	}
}

func (l *lazy) Close() {
	for i := range l.conns {
		if t := l.conns[i].timer.Load(); t != nil {
			t.Stop()
		}
	}
}
