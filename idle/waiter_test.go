package idle

import (
	"testing"
	"time"
)

// A waiter does not report when its waits end.
type waiter struct {
	prober
	read, write bool
}

func (w *waiter) Waiting() (read, write bool) { return w.read, w.write }

func (r *rig) waiter() *waiter {
	w := &waiter{}
	w.probe = func() Pulse { return Pulse{} }
	r.track(&w.Conn, w)
	return w
}

func TestWaiterIsNotTimedOutForAWaitThatEnded(t *testing.T) {
	onBoth(t, Policy{ReadTimeout: time.Second, WriteTimeout: time.Second}, nil, func(r *rig) {
		w := r.waiter()
		r.lives(&w.peer, 10*time.Second+odd)
		r.do(func() { w.read = true; w.BeginRead() })
		r.lives(&w.peer, 900*time.Millisecond)
		r.do(func() { w.read = false; w.Received(1) })
		r.lives(&w.peer, 10*time.Second)
		r.do(func() { w.write = true; w.BeginWrite() })
		r.dies(&w.peer, time.Now(), time.Second, ReasonWrite)
		if w.probes != 1 {
			r.Errorf("probed %d times", w.probes)
		}
	})
}

// TestWaiterOwesNothingBetweenReads reads enough every ten seconds, and lets
// the peer rest in between; it is looked at meanwhile.
func TestWaiterOwesNothingBetweenReads(t *testing.T) {
	onBoth(t, Policy{MinReadRate: Rate{BytesPerSecond: 100, Grace: time.Second}}, nil, func(r *rig) {
		w := r.waiter()
		for range 20 {
			r.do(func() { w.read = true; w.BeginRead() })
			r.lives(&w.peer, 100*time.Millisecond)
			r.do(func() { w.read = false; w.Received(10) })
			r.lives(&w.peer, 10*time.Second)
		}
	})
}

// TestWaiterIsAskedAnewAfterKeep: the write ends while Keep makes up its mind.
func TestWaiterIsAskedAnewAfterKeep(t *testing.T) {
	onDriver(t, Policy{MinWriteRate: Rate{BytesPerSecond: 100, Grace: time.Second}}, nil, func(r *rig) {
		w := &waiterKeeper{}
		r.track(&w.Conn, w)
		w.write = true
		w.BeginWrite()
		r.wait(1500 * time.Millisecond) // Keep is asked by now
		w.write = false
		w.Sent(1)
		r.lives(&w.peer, 10*time.Second)
	})
}

type waiterKeeper struct {
	peer
	write bool
}

func (w *waiterKeeper) Waiting() (read, write bool) { return false, w.write }
func (w *waiterKeeper) Keep(*TimeoutError) bool     { time.Sleep(time.Second); return false }

// TestWaitThatBeginsWhileAskedFor has a Waiter rest between two reads, for
// longer than its rate allows a read to bring nothing. It begins the next one
// just when it is asked, after the clearing of the wait before.
func TestWaitThatBeginsWhileAskedFor(t *testing.T) {
	onBoth(t, Policy{MinReadRate: Rate{BytesPerSecond: 100, Grace: time.Second}}, nil, func(r *rig) {
		w := &beginner{}
		r.track(&w.Conn, w)
		r.do(w.BeginRead)
		r.lives(&w.peer, odd)
		r.do(func() { w.Received(10) })
		r.wait(1500 * time.Millisecond)
		if w.begun.IsZero() {
			r.Fatal("it was not asked")
		}
		r.lives(&w.peer, time.Until(w.begun.Add(time.Second)))
		r.dies(&w.peer, w.begun, time.Second+100*time.Millisecond, ReasonMinReadRate)
	})
}

// A beginner begins a read when it is asked whether there is one.
type beginner struct {
	peer
	begun time.Time
}

func (b *beginner) Waiting() (read, write bool) {
	if b.begun.IsZero() {
		b.begun = time.Now()
		b.BeginRead()
	}
	return true, false
}

// ponders is how long an enterer takes to answer, so that it is asked anew.
const ponders = (answeredAtOnce + 2) * defaultTick

// TestEnterWhileAskedFor has a Waiter enter a phase just when it is asked, after
// the clearing of the wait that goes on. Its sleep stands for a preemption: the
// driver goes on, as it is Keep's goroutine that asks anew, after a late answer.
func TestEnterWhileAskedFor(t *testing.T) {
	onDriver(t, Policy{ReadTimeout: time.Second}, nil, func(r *rig) {
		w := &enterer{phase: r.phaseOf(Policy{ReadTimeout: 2 * time.Second})}
		r.track(&w.Conn, w)
		w.BeginRead()
		r.wait(1500 * time.Millisecond)
		if w.asked != 2 {
			r.Fatalf("asked %d times", w.asked)
		}
		r.dies(&w.peer, w.entered, 2*time.Second+ponders, ReasonRead)
	})
}

type enterer struct {
	peer
	phase   *Phase
	asked   int
	entered time.Time
}

func (*enterer) Keep(*TimeoutError) bool {
	time.Sleep(ponders)
	return false
}

func (e *enterer) Waiting() (read, write bool) {
	if e.asked++; e.asked == 2 {
		time.Sleep(3 * defaultTick)
		e.entered = time.Now()
		e.Enter(e.phase)
	}
	return true, false
}
