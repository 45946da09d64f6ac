package model

import "testing"

const asleep = 0 // the copies of a clock that sleeps

// A modelClock is the clock with two shards' copies. The time is in whole ticks,
// and something may happen at any moment of one.
type modelClock struct {
	now       int8 // the real clock
	copies    [2]int8
	locked    bool
	last      int8
	gaps      [8]int8 // by stamp: the tick at which it ended, if late
	gapsFrom  int8
	allowance int8 // readings; -1 while withdrawn

	given [2]int8 // for each shard, the latest stamp given to those who are done
	acts  [4]activityOfModel
	fault string
}

func (m modelClock) wrong() string { return m.fault }

// An activityOfModel happened in a tick, and was given a stamp.
type activityOfModel struct{ tick, stamp int8 }

type clockRegisters struct{ done, begun, given, at int8 }

type clockThread = threadOf[modelClock, clockRegisters]

func newClockThread(name string) *clockThread {
	return &clockThread{name: name, at: map[string]int{}}
}

// end is clock.end.
func (m *modelClock) end(stamp int8) int8 {
	switch {
	case (m.last == asleep || stamp < m.last) && stamp >= m.gapsFrom:
		return stamp + 1
	case m.last != asleep && stamp >= m.last:
		return max(m.now, stamp) + 1
	}
	end := stamp + 1
	for s := range stamp + 1 {
		end = max(end, m.gaps[s])
	}
	return end
}

// replaced is what clock.set does after it has stored the copies.
func (m *modelClock) replaced(tick int8) {
	if end := m.now + 1; m.last != asleep && end > m.last+1 {
		m.gaps[m.last], m.gapsFrom = end, end
	}
	m.last = tick
}

func lockClock(t *clockThread) {
	t.step("lock", func(m *modelClock, _ *clockRegisters) string {
		if m.locked {
			return blocked
		}
		m.locked = true
		return ""
	})
}

// storeCopies stores the copies, and what belongs to them.
func storeCopies(t *clockThread) {
	t.do("store copy 0", func(m *modelClock, r *clockRegisters) { m.copies[0] = r.at })
	t.do("store copy 1", func(m *modelClock, r *clockRegisters) { m.copies[1] = r.at })
	t.do("store last", func(m *modelClock, r *clockRegisters) { m.replaced(r.at) })
}

// passingTime has time pass.
func passingTime(ticks int) *clockThread {
	t := newClockThread("time")
	for range ticks {
		t.do(string(rune('1'+len(t.steps))), func(m *modelClock, _ *clockRegisters) {
			m.now++
			if m.allowance == 0 {
				m.allowance++
			}
		})
	}
	return t
}

// stamping has goroutine n ask its shard for a stamp, twice.
func stamping(n, shard int, flaw string) *clockThread {
	t := newClockThread("activity")
	done := func(m *modelClock, r *clockRegisters, stamp int8) string {
		if stamp < r.given {
			m.fault = "a stamp has gone back"
		}
		m.given[shard] = max(m.given[shard], stamp)
		m.acts[2*n+int(r.done)] = activityOfModel{r.begun, stamp}
		if *r = (clockRegisters{done: r.done + 1}); r.done == 2 {
			return "end"
		}
		return "begin"
	}
	t.do("begin", func(m *modelClock, r *clockRegisters) { r.begun, r.given = m.now, m.given[shard] })
	t.step("load copy", func(m *modelClock, r *clockRegisters) string {
		if m.copies[shard] != asleep {
			return done(m, r, m.copies[shard])
		}
		return ""
	})
	t.do("read clock", func(m *modelClock, r *clockRegisters) { r.at = m.now })
	t.step("take", func(m *modelClock, r *clockRegisters) string {
		if m.allowance > 0 {
			m.allowance--
			return done(m, r, r.at)
		}
		return ""
	})
	lockClock(t)
	t.jump("load last", "stamp", func(m *modelClock, _ *clockRegisters) bool { return m.last != asleep })
	t.do("read clock again", func(m *modelClock, r *clockRegisters) { r.at = m.now })
	t.step("take again", func(m *modelClock, r *clockRegisters) string {
		if m.allowance > 0 {
			m.allowance--
			m.locked = false
			return done(m, r, r.at)
		}
		return ""
	})
	withdraw := func() {
		t.do("withdraw", func(m *modelClock, _ *clockRegisters) { m.allowance = -1 })
	}
	if flaw != "never withdrawn" && flaw != "withdrawn after the clock was read" {
		withdraw()
	}
	t.do("read clock for the copies", func(m *modelClock, r *clockRegisters) { r.at = m.now })
	if flaw == "withdrawn after the clock was read" {
		withdraw()
	}
	storeCopies(t)
	t.step("stamp", func(m *modelClock, r *clockRegisters) string {
		m.locked = false
		return done(m, r, m.last)
	})
	return t
}

// driving has the driver publish the clock, and then put it to sleep.
func driving(flaw string) *clockThread {
	t := newClockThread("driver")
	lockClock(t)
	t.step("publish", func(m *modelClock, r *clockRegisters) string {
		if m.last == asleep {
			m.locked = false
			return "end"
		}
		r.at = m.now
		return ""
	})
	storeCopies(t)
	grant := func() {
		t.do("grant", func(m *modelClock, _ *clockRegisters) { m.allowance = 1 })
	}
	if flaw == "granted while the clock runs" {
		grant()
	}
	t.do("sleep", func(_ *modelClock, r *clockRegisters) { r.at = asleep })
	t.do("store copy 0 asleep", func(m *modelClock, r *clockRegisters) { m.copies[0] = r.at })
	t.do("store copy 1 asleep", func(m *modelClock, r *clockRegisters) { m.copies[1] = r.at })
	t.do("store last asleep", func(m *modelClock, r *clockRegisters) { m.replaced(r.at) })
	if flaw != "granted while the clock runs" {
		grant()
	}
	t.do("unlock", func(m *modelClock, _ *clockRegisters) { m.locked = false })
	return t
}

// TestModelOfSleep has activities on two goroutines, of one shard or of two, the driver, and time go on
// in any order, from a clock that sleeps and one that runs. On a shard no stamp is earlier
// than one that was given before its activity began. No stamp ends before its activity.
func TestModelOfSleep(t *testing.T) {
	try := func(flaw string, start modelClock, shard int) *exploration[modelClock, clockRegisters] {
		x := &exploration[modelClock, clockRegisters]{
			threads: []*clockThread{passingTime(2), driving(flaw), stamping(0, 0, flaw), stamping(1, shard, flaw)},
			final: func(m *modelClock) {
				for _, a := range m.acts {
					if m.end(a.stamp) <= a.tick {
						m.fault = "a stamp has ended before its activity"
					}
				}
			},
		}
		ways := x.explore(start)
		t.Logf("%d states, %.3g interleavings", len(x.seen), ways)
		return x
	}
	starts := map[string]modelClock{
		"asleep":           {now: 1, allowance: 1},
		"asleep, used up":  {now: 1},
		"running":          {now: 1, last: 1, copies: [2]int8{1, 1}, allowance: -1},
		"running and late": {now: 2, last: 1, copies: [2]int8{1, 1}, allowance: -1},
	}
	for name, start := range starts {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && start.now > 1 {
				t.Skip("many states")
			}
			for shard := range 2 {
				if x := try("", start, shard); x.fault != "" {
					t.Error(x)
				}
			}
		})
	}
	for _, flaw := range []string{"never withdrawn", "withdrawn after the clock was read", "granted while the clock runs"} {
		t.Run(flaw, func(t *testing.T) {
			for _, start := range starts {
				if x := try(flaw, start, 0); x.fault != "" {
					t.Log(x)
					return
				}
			}
			t.Error("the flaw is not found")
		})
	}
}
