package contender

import (
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// idlewheel is this library as a server uses it: a tracker with an idle
// timeout, and a Touch for every activity.
type idlewheel struct {
	expired func(int)
	tracker *idle.Tracker
	conns   []idleConn
	later   []*idleConn // those armed again, as a Conn is for one connection; nil if none was
}

// idleConn is what a server has anyway, its connection, with a Conn in it.
type idleConn struct {
	idle.Conn
	in    *idlewheel
	index int
	armed bool
}

var idlewheelHooks = idle.Hooks{Expire: func(owner any, _ *idle.TimeoutError) {
	c := owner.(*idleConn)
	c.in.expired(c.index)
}}

func newIdlewheel(n int, timeout time.Duration, expired func(int)) (Contender, error) {
	t, err := idle.New(idle.Policy{IdleTimeout: timeout}, &idle.Options{Tick: Tick})
	if err != nil {
		return nil, err
	}
	w := &idlewheel{expired: expired, tracker: t, conns: make([]idleConn, n)}
	for i := range w.conns {
		w.conns[i].in, w.conns[i].index = w, i
	}
	return w, nil
}

func (w *idlewheel) Arm(i int) {
	c := &w.conns[i]
	if c.armed {
		if w.later == nil {
			w.later = make([]*idleConn, len(w.conns))
		}
		c = &idleConn{in: w, index: i}
		w.later[i] = c
	}
	c.armed = true
	if err := w.tracker.Track(&c.Conn, c, &idlewheelHooks); err != nil {
		panic(err) // it is closed: a fault of the workload
	}
}

// conn returns the connection that was armed last in place i.
func (w *idlewheel) conn(i int) *idleConn {
	if w.later != nil && w.later[i] != nil {
		return w.later[i]
	}
	return &w.conns[i]
}

func (w *idlewheel) Cancel(i int) { w.conn(i).Stop() }

func (w *idlewheel) Touch(list []uint32) {
	if w.later != nil {
		for _, i := range list {
			w.conn(int(i)).Touch()
		}
		return
	}
	for _, i := range list {
		w.conns[i].Touch()
	}
}

func (w *idlewheel) Close() { _, _ = w.tracker.Close() } // owners that are live need nothing
