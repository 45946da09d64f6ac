package wheel

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// A task has a timer. Its deadline may move later without a call to the wheel,
// because that's how the wheel is meant to be used.
type task struct {
	timer    Timer
	id       int
	deadline uint64
	armed    bool // the oracle's view: the timer should be pending
}

func taskOf(t *Timer) *task { return (*task)(unsafe.Pointer(t)) }

// A world compares a wheel with an oracle that's too simple to be wrong: a slice of
// all tasks, which it searches for those that are due.
type world struct {
	t     testing.TB
	wheel *Wheel
	tasks []*task
	now   uint64
	reach uint64 // deadlines are less than 2^reach ticks away
}

func newWorld(t testing.TB, tasks int) *world {
	w := &world{t: t, wheel: &Wheel{}, reach: 30}
	for i := range tasks {
		w.tasks = append(w.tasks, &task{id: i})
	}
	return w
}

func (w *world) schedule(k *task, deadline uint64) {
	w.wheel.Schedule(&k.timer, deadline)
	k.deadline, k.armed = deadline, true
}

func (w *world) cancel(k *task) {
	if got := w.wheel.Cancel(&k.timer); got != k.armed {
		w.t.Fatalf("tick %d: Cancel(task %d) = %v, want %v", w.now, k.id, got, k.armed)
	}
	k.armed = false
}

// postpone moves the deadline of a pending task later, without a call to the wheel.
func (w *world) postpone(k *task, by uint64) {
	if k.armed {
		k.deadline += by
	}
}

// advance runs the loop of the package comment until nothing is left, with at most
// budget pops in a pass. It compares the tasks that fired with the oracle. during is
// called after every task that fires, and may do anything.
func (w *world) advance(to uint64, budget int, during func(*task)) {
	w.check()
	w.now = max(w.now, to)
	want := map[int]bool{}
	for _, k := range w.tasks {
		if k.armed && k.deadline <= w.now {
			want[k.id] = true
		}
	}
	w.wheel.Advance(to)
	for n := 0; ; n++ {
		if n == budget {
			n = 0
			w.wheel.Advance(w.now)
		}
		t := w.wheel.Pop()
		if t == nil {
			break
		}
		k := taskOf(t)
		if !k.armed {
			w.t.Fatalf("tick %d: task %d popped, but it is not armed", w.now, k.id)
		}
		if k.deadline > w.now {
			w.wheel.Schedule(t, k.deadline)
			continue
		}
		k.armed = false
		delete(want, k.id)
		if during != nil {
			during(k)
		}
	}
	for id := range want {
		if k := w.tasks[id]; k.armed && k.deadline <= w.now && !w.isLate(k) {
			w.t.Fatalf("tick %d: task %d, due at %d, did not fire", w.now, k.id, k.deadline)
		}
	}
	w.check()
}

// isLate reports whether k was scheduled for the past during this pass, so it
// comes up in the next one.
func (w *world) isLate(k *task) bool { return slices.Contains(w.wheel.late.members(), &k.timer) }

// members lists a ring from its front.
func (r *Timer) members() (all []*Timer) {
	for t := r.next; t != nil && t != r; t = t.next {
		all = append(all, t)
	}
	return all
}

// check compares the wheel with the oracle, and checks its invariants.
func (w *world) check() {
	armed, earliest := 0, ^uint64(0)
	for _, k := range w.tasks {
		if k.armed != k.timer.Pending() {
			w.t.Fatalf("tick %d: task %d pending is %v, want %v", w.now, k.id, k.timer.Pending(), k.armed)
		}
		if k.armed {
			armed++
			earliest = min(earliest, k.deadline)
		}
	}
	if w.wheel.Len() != armed {
		w.t.Fatalf("tick %d: Len is %d, want %d", w.now, w.wheel.Len(), armed)
	}
	next, ok := w.wheel.Next()
	if ok != (armed > 0) {
		w.t.Fatalf("tick %d: Next says pending %v with %d armed", w.now, ok, armed)
	}
	if ok && next > max(earliest, w.wheel.Now()) {
		w.t.Fatalf("tick %d: Next is %d, later than the earliest deadline %d", w.now, next, earliest)
	}
	if ok && next > w.now {
		w.checkTickless(next)
	}
	w.checkLevels()
}

// checkTickless checks that nothing comes up before the tick that Next returned.
func (w *world) checkTickless(next uint64) {
	w.wheel.Advance(next - 1)
	w.now = max(w.now, next-1)
	if t := w.wheel.Pop(); t != nil {
		w.t.Fatalf("task %d came up at %d, before the announced %d", taskOf(t).id, next-1, next)
	}
}

// checkLevels checks that the bit of every slot with a timer is set.
func (w *world) checkLevels() {
	for i := range w.wheel.rings {
		level, slot := i/slots, i%slots
		if !w.wheel.rings[i].empty() && w.wheel.occupied[level]&(1<<slot) == 0 {
			w.t.Fatalf("tick %d: level %d slot %d holds a timer, but its bit is clear", w.now, level, slot)
		}
	}
}

// step does one random operation. next returns random numbers below its argument.
func (w *world) step(next func(n uint64) uint64) {
	k := w.tasks[next(uint64(len(w.tasks)))]
	distance := func() uint64 { return next(1 << next(w.reach)) }
	switch next(8) {
	case 0, 1:
		w.schedule(k, w.now+distance())
	case 2:
		w.schedule(k, w.now-min(w.now, distance()))
	case 3:
		w.cancel(k)
	case 4:
		w.postpone(k, distance())
	case 5:
		w.advance(w.now-min(w.now, distance()), 1, nil) // a clock set back
	case 6:
		w.advance(w.now+distance(), int(1+next(4)), nil)
	case 7:
		reactions := 0
		w.advance(w.now+distance(), int(1+next(4)), func(fired *task) {
			if reactions++; reactions > 50 {
				return // or tasks that schedule themselves for now would go on forever
			}
			other := w.tasks[next(uint64(len(w.tasks)))]
			switch next(4) {
			case 0:
				w.schedule(fired, w.now+next(100))
			case 1:
				w.schedule(other, w.now+next(100))
			case 2:
				w.cancel(other)
			}
		})
	}
}

// TestRandomAgainstOracle reaches far, or stays within 512 ticks, so that timers move between the lowest levels all the time.
func TestRandomAgainstOracle(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range uint64(levels) {
		rng := rand.New(rand.NewPCG(seed, round))
		w := newWorld(t, 40)
		if round%2 == 1 {
			w = newWorld(t, 12)
			w.reach = 10
		}
		for range 30_000 {
			w.step(func(n uint64) uint64 { return rng.Uint64N(max(n, 1)) })
		}
	}
}

func FuzzAgainstOracle(f *testing.F) {
	f.Add([]byte{3, 0, 0, 9, 200, 6, 0, 9, 255})
	f.Add([]byte{1, 1, 0, 6, 63, 1, 1, 6, 64, 0, 6, 7, 0, 4, 1, 1, 6, 2})
	f.Add(slices.Repeat([]byte{2, 5, 1, 29, 250, 3, 6, 20}, 8))
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) == 0 {
			return
		}
		w := newWorld(t, 6)
		ops = ops[:min(len(ops), 400)]
		next := func(n uint64) uint64 {
			v := uint64(0)
			for n > 0 && len(ops) > 0 {
				v = v<<8 | uint64(ops[0])
				ops, n = ops[1:], n>>8
			}
			return v
		}
		for len(ops) > 0 {
			w.step(func(n uint64) uint64 { return next(n) % max(n, 1) })
		}
	})
}
