package contender

import (
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// idlewheel is this library as a server uses it: a tracker with an idle
// timeout, and a Touch forevery activity.
type idlewheel struct {
	expired func(int)
	tracker *idle.Tracker
	conns   []idleConn
}

// idleConn is what a server has anyway, its connection, with a Conn in it.
type idleConn struct {
	idle.Conn
	in    *idlewheel
	index int
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
	if err := w.tracker.Track(&w.conns[i].Conn, &w.conns[i], &idlewheelHooks); err != nil {
		panic(err) // it is armed twice, or closed: a fault of the workload
	}
}

func (w *idlewheel) Cancel(i int) { w.conns[i].Conn.Stop() }

func (w *idlewheel) Touch(list []uint32) {
	for _, i := range list {
		w.conns[i].Touch()
	}
}

func (w *idlewheel) Close() { _, _ = w.tracker.Close() } // owners that are live need nothing
