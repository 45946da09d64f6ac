package wheel

import "testing"

// run advances from one result of Next to the following one until the wheel is empty.
// It returns the tick at which each task fired, and the number of wake-ups.
func run(w *Wheel) (fired map[int]uint64, wakes int) {
	fired = map[int]uint64{}
	for {
		next, ok := w.Next()
		if !ok {
			return fired, wakes
		}
		w.Advance(next)
		wakes++
		for t := w.Pop(); t != nil; t = w.Pop() {
			if k := taskOf(t); k.deadline > w.Now() {
				w.Schedule(t, k.deadline)
			} else {
				fired[k.id] = w.Now()
			}
		}
	}
}

func arm(w *Wheel, deadlines ...uint64) []*task {
	var tasks []*task
	for i, d := range deadlines {
		k := &task{id: i, deadline: d}
		w.Schedule(&k.timer, d)
		tasks = append(tasks, k)
	}
	return tasks
}

// TestWakeUps runs until all tasks have fired, each at its deadline. There are no more wake-ups than levels that a task passes
// through, or times that it is parked.
func TestWakeUps(t *testing.T) {
	for name, c := range map[string]struct {
		now       uint64
		deadlines []uint64
		wakes     int
	}{
		"one":                {0, []uint64{5420}, 4},
		"four":               {2, []uint64{2 + 19, 2 + 22, 2 + 350, 2 + 399}, 7},
		"two":                {0, []uint64{28, 450}, 3},
		"far":                {0, []uint64{1<<47 + 12345678901}, levels},
		"beyond the horizon": {0, []uint64{20 << 48}, 20 + levels + 1},
	} {
		var w Wheel
		w.Advance(c.now)
		arm(&w, c.deadlines...)
		fired, wakes := run(&w)
		for id, want := range c.deadlines {
			if fired[id] != want {
				t.Errorf("%s: task %d fired at %d, want %d", name, id, fired[id], want)
			}
		}
		if wakes > c.wakes {
			t.Errorf("%s: %d wake-ups, want at most %d", name, wakes, c.wakes)
		}
	}
}

func TestSameHour(t *testing.T) {
	const n, hour, budget = 100_000, 3600, 1000
	var w Wheel
	for i := range n {
		k := &task{id: i, deadline: hour}
		w.Schedule(&k.timer, hour)
	}
	pops, fired := 0, 0
	for now, last := uint64(0), -1; fired < n; {
		if next, ok := w.Next(); ok && next > now {
			now = next
		}
		w.Advance(now)
		for range budget {
			timer := w.Pop()
			if timer == nil {
				break
			}
			pops++
			k := taskOf(timer)
			if k.deadline > now {
				w.Schedule(timer, k.deadline)
				continue
			}
			if now < hour {
				t.Fatalf("task %d fired at %d", k.id, now)
			}
			if k.id != last+1 {
				t.Fatalf("task %d fired after task %d, want the order of arming", k.id, last)
			}
			last = k.id
			fired++
		}
	}
	if pops > 4*n {
		t.Errorf("%d pops for %d timers, want at most one a level", pops, n)
	}
}

// TestScheduleTellsWhenTheSlotComesUp schedules one timer at many distances, some of
// which are beyond the reach of the highest level.
func TestScheduleTellsWhenTheSlotComesUp(t *testing.T) {
	const now = 12345
	for distance := uint64(1); distance < 1<<52; distance += distance/3 + 1 {
		var w Wheel
		var timer Timer
		w.Advance(now)
		up := w.Schedule(&timer, now+distance)
		w.Advance(up - 1)
		if early := w.Pop(); early != nil || up > now+distance {
			t.Fatalf("%d ticks ahead: up at %d, and before: %v", distance, up, early != nil)
		}
		if w.Advance(up); w.Pop() != &timer {
			t.Fatalf("%d ticks ahead: not up at %d", distance, up)
		}
	}
}

// TestOrderOfWhatComesUpTogether: of timers that come up in one Advance, Pop first
// returns those scheduled for the past, then those that have reached their tick, and
// then those that may have come up early.
func TestOrderOfWhatComesUpTogether(t *testing.T) {
	var w Wheel
	var timers [5]Timer
	const tick = 512
	w.Schedule(&timers[3], tick+1) // in a slot of a higher level
	w.Schedule(&timers[4], tick)
	w.Advance(tick - 10)
	w.Schedule(&timers[2], tick+1)
	w.Schedule(&timers[1], tick)
	w.Schedule(&timers[0], tick-20)
	w.Advance(tick + 1)
	for i := range timers {
		if !w.Waits() {
			t.Errorf("timer %d does not wait", i)
		}
		if got := w.Pop(); got != &timers[i] {
			t.Fatalf("timer %d did not come up in its order", i)
		}
	}
}

// TestDueOvertakesEarly: some timers that came up early still wait for Pop when others
// reach their tick. Three in four of those that Pop returns are then due, so the early
// ones don't starve.
func TestDueOvertakesEarly(t *testing.T) {
	var w Wheel
	var far, near [100]Timer
	for i := range far {
		w.Schedule(&far[i], 1000)
	}
	up, _ := w.Next()
	w.Advance(up)
	for i := range near {
		w.Schedule(&near[i], up+1)
	}
	for i := range 10 {
		if w.Pop() != &far[i] {
			t.Fatalf("timer %d did not come up in its order", i)
		}
	}
	w.Advance(up + 1)
	nears, fars := 0, 10
	for i := range 190 {
		if next, ok := w.Next(); !ok || next != up+1 || !w.Waits() {
			t.Fatalf("Next: %d, %v", next, ok)
		}
		switch got := w.Pop(); {
		case nears < 100 && got == &near[nears]:
			nears++
		case fars < 100 && got == &far[fars]:
			fars++
		default:
			t.Fatalf("after %d due and %d early ones, one did not come up in its order", nears, fars)
		}
		if i == 99 && nears != 75 {
			t.Errorf("of the first hundred, %d were due", nears)
		}
	}
	if w.Waits() || w.Pop() != nil {
		t.Error("one is left")
	}
}

func TestPastFiresAtNextAdvanceOnly(t *testing.T) {
	var w Wheel
	w.Advance(100)
	k := arm(&w, 7)[0]
	if w.Pop() != nil {
		t.Error("popped before Advance")
	}
	w.Advance(100)
	for range 3 { // a timer scheduled again for the past must not keep Pop busy forever
		if w.Pop() != &k.timer {
			t.Fatal("a past deadline did not come up at the next Advance")
		}
		w.Schedule(&k.timer, 7)
		if w.Pop() != nil {
			t.Fatal("it came up twice in one pass")
		}
		w.Advance(100)
	}
}

// TestPlacementsPerTimeout: if every activity moves the deadline, the timer still
// comes up at most twice per timeout, at any rate of activity. That's why moving a
// deadline can be so cheap.
func TestPlacementsPerTimeout(t *testing.T) {
	const elapsed = 1 << 16
	for _, timeout := range []uint64{1, 2, 63, 64, 65, 127, 1000, 4095, 4096, 4159, 6000, 8191, 20000} {
		for _, start := range []uint64{0, 1, 63, 4095, 4096, 8190, 262143} {
			var w Wheel
			w.Advance(start)
			k := task{}
			w.Schedule(&k.timer, start+timeout)
			pops := uint64(0)
			for {
				next, _ := w.Next()
				if next > start+elapsed {
					break
				}
				w.Advance(next)
				if w.Pop() != nil {
					pops++
					w.Schedule(&k.timer, w.Now()+timeout) // active just now
				}
			}
			if limit := 2*elapsed/timeout + 1; pops > limit {
				t.Errorf("timeout %d from %d: %d placements in %d ticks, want at most %d", timeout, start, pops, elapsed, limit)
			}
		}
	}
}

func TestNoAllocations(t *testing.T) {
	var w Wheel
	tasks := make([]task, 100)
	if got := testing.AllocsPerRun(100, func() {
		now := w.Now()
		for i := range tasks {
			w.Schedule(&tasks[i].timer, now+uint64(i*i*i))
		}
		w.Cancel(&tasks[50].timer)
		w.Advance(now + 500)
		for w.Pop() != nil {
		}
	}); got != 0 {
		t.Errorf("%v allocations a round, want 0", got)
	}
}

// TestSlotsOfOneTick: where slots of two levels come up at the same tick, the timers of the
// higher one are first, because they were scheduled first.
func TestSlotsOfOneTick(t *testing.T) {
	var w Wheel
	var far, mid, near Timer
	const tick = 1024 // begins a slot of level 1, and one of level 2
	w.Schedule(&far, tick)
	w.Advance(tick - 200)
	w.Schedule(&mid, tick)
	w.Advance(tick)
	for i, want := range []*Timer{&far, &mid} {
		if got := w.Pop(); got != want {
			t.Errorf("timer %d is %p, want %p", i, got, want)
		}
	}
	w.Schedule(&near, tick+1)
	if w.Advance(tick + 1); !w.Waits() {
		t.Error("a timer has reached its tick, and none waits")
	}
}
