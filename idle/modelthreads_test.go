package idle

// The threads of the model.

// ticking advances the clock.
func ticking(ticks int8) *thread {
	t := newThread("clock")
	for i := range ticks {
		t.step("tick "+string('1'+rune(i)), func(m *memory, _ *registers) string { m.now++; return "" })
	}
	return t
}

// An owner is what the judge may ask.
type modelOwner struct{ waiter, keeper, keep, reaper bool }

// judging is Shard.judge, of a job of generation 1 that a pass has in hand:
// suspect, ask the Keeper, expire, or replace.
func judging(flaw string, o modelOwner) *thread {
	t := newThread("judge")
	t.step("job", func(m *memory, r *registers) string { r.gen = 1; return "" })
	t.suspect("suspect", flaw, o)
	t.step("suspected", func(m *memory, r *registers) string { r.suspected = r.reason; return "" })
	if o.keeper {
		t.move("ask", "replace lock", flaw, func(s *modelState) { s.asking = true }, goOn)
		t.step("keep", func(m *memory, r *registers) string { // what the owner does meanwhile others do
			r.then = m.due(m.now, false)
			return ""
		})
		t.move("answer", "end", flaw, func(s *modelState) { s.asking = false }, goOn)
		if o.keep {
			t.restart(flaw)
			t.goTo("replace lock")
		} else if !has(flaw, "Keep has the last word") {
			t.suspect("suspect anew", flaw, o)
			t.step("the same", func(m *memory, r *registers) string {
				if r.reason != r.suspected {
					return "replace lock"
				}
				return ""
			})
		}
	}
	if !has(flaw, "one look") && !has(flaw, "has the last word") {
		t.look("expire", flaw, func(m *memory, r *registers) string {
			if r.reason != r.suspected {
				return "replace lock"
			}
			return ""
		})
	}
	t.move("expire", "end", flaw, func(s *modelState) { s.live, s.expired = false, o.reaper }, func(m *memory, r *registers) string {
		m.outcomes[m.state.gen]++
		switch {
		case m.state.gen != r.gen:
			m.fault = "timed out a later generation"
		case r.then&(1<<r.suspected) == 0 && !r.window:
			m.fault = "timed out, but the limit was not passed at any moment of the last look"
		}
		if o.reaper {
			return "linger lock"
		}
		return "end"
	})
	t.linger(flaw)
	t.lock("replace")
	t.step("replace holds", func(m *memory, r *registers) string {
		if m.state.gen != r.gen || !m.state.live || m.pending {
			return "replace unlock"
		}
		return ""
	})
	t.place("replace place", flaw)
	t.unlock("replace", "end")
	return t
}

// linger adds the steps of Shard.linger, which places what has timed out to be
// reaped.
func (t *thread) linger(flaw string) {
	t.lock("linger")
	t.step("linger state", func(m *memory, r *registers) string {
		if (m.state.gen != r.gen || !m.state.expired) && !has(flaw, "linger does not look") {
			return "linger unlock"
		}
		return ""
	})
	t.step("linger schedule", func(m *memory, r *registers) string { m.placed, m.pending = far, true; return "" })
	t.unlock("linger", "end")
}

// suspect adds the steps of a first look, as settle and answered do it, and of
// Shard.suspect. Without a limit that is passed it goes to replace.
func (t *thread) suspect(name, flaw string, o modelOwner) {
	t.look(name+" first", flaw, func(m *memory, r *registers) string {
		r.examined = 0
		return ""
	})
	t.holds(name + " first")
	t.step(name+" loop", func(m *memory, r *registers) string {
		switch {
		case r.reason == 0:
			return "replace lock"
		case !o.waiter || r.examined&(1<<r.reason) != 0:
			return name + " done"
		}
		return ""
	})
	if o.waiter {
		t.holds(name)
		t.step(name+" wait", func(m *memory, r *registers) string {
			r.examined |= 1 << r.reason
			if r.reason != byRead && r.reason != byRate {
				return name + " asked"
			}
			return ""
		})
		t.askWaiter(name+" waiter", flaw)
		t.step(name+" asked", func(m *memory, r *registers) string {
			if has(flaw, "the Waiter has the last word") {
				return name + " done"
			}
			return ""
		})
		t.look(name+" again", flaw, func(m *memory, r *registers) string { return name + " loop" })
	}
	t.step(name+" done", goOn)
}

// holds adds the steps of Shard.holds; if it does not, nothing follows.
func (t *thread) holds(name string) {
	t.step(name+" holds", func(m *memory, r *registers) string {
		if m.state.gen != r.gen || !m.state.live {
			return "end"
		}
		return ""
	})
}

// askWaiter adds the steps of Shard.askWaiter: flow.suspend, the question, and
// flow.goOn if the answer is yes.
func (t *thread) askWaiter(name, flaw string) {
	ask := func(m *memory, r *registers) string {
		r.going, r.window = m.mutex, m.mutex && m.truth.unmarked && !has(flaw, "no allowance")
		r.counts = m.mutex && !m.truth.unmarked
		r.then = m.due(m.now, r.counts)
		return ""
	}
	if has(flaw, "the question comes before the clearing") {
		t.step(name+" ask", ask)
	}
	t.step(name+" suspend load", func(m *memory, r *registers) string {
		if r.was = m.wait; !r.was.on {
			return name + " suspended"
		}
		return ""
	})
	t.step(name+" suspend last", func(m *memory, r *registers) string {
		if r.placed = max(m.stamp, r.was.since); has(flaw, "suspended as of now") {
			r.placed = m.now
		}
		return ""
	})
	t.step(name+" suspend swap", func(m *memory, r *registers) string {
		if m.wait != r.was {
			return name + " suspend load"
		}
		m.wait = modelWait{r.placed, false}
		return ""
	})
	t.step(name+" suspended", goOn)
	if !has(flaw, "the question comes before the clearing") {
		t.step(name+" ask", ask)
	}
	t.step(name+" go on", func(m *memory, r *registers) string {
		if !r.going || !r.was.on {
			return name + " asked"
		}
		return ""
	})
	t.step(name+" go on load", func(m *memory, r *registers) string {
		if r.wait = m.wait; r.wait.on && !has(flaw, "going on stores") {
			return name + " asked"
		}
		return ""
	})
	t.step(name+" go on swap", func(m *memory, r *registers) string {
		next := modelWait{r.wait.since, true}
		switch {
		case has(flaw, "going on stores"), r.wait == modelWait{r.placed, false}:
			next = r.was
		case has(flaw, "going on swaps once"):
			return ""
		}
		if m.wait != r.wait && !has(flaw, "going on stores") {
			return name + " go on load"
		}
		m.wait = next
		return ""
	})
	t.step(name+" asked", goOn)
}

// restart adds the steps of Conn.restart, and notes what is true then.
func (t *thread) restart(flaw string) {
	t.step("restart stamp", func(m *memory, r *registers) string { r.placed = m.now; return "" })
	t.step("restart pause load", func(m *memory, r *registers) string { r.wait = m.wait; return "" })
	t.step("restart pause swap", func(m *memory, r *registers) string {
		if r.suspected == byRate && !r.wait.on && r.wait.since < r.placed && m.wait == r.wait {
			m.wait.since = r.placed
		}
		return ""
	})
	t.step("restart", func(m *memory, r *registers) string {
		tr := &m.truth
		switch r.suspected {
		case byIdle:
			m.stamp, tr.last = max(m.stamp, r.placed), max(tr.last, r.placed)
		case byRead:
			if m.wait.on {
				m.wait.since = max(m.wait.since, r.placed)
			}
			tr.since = max(tr.since, r.placed)
		case byRate:
			if m.paid < r.placed || has(flaw, "restart stores") {
				m.paid = r.placed
			}
			if m.state.gen == r.gen {
				tr.paid = max(tr.paid, r.placed)
			}
		case byPhase:
			m.beat, tr.began = max(m.beat, r.placed), max(tr.began, r.placed)
		}
		return ""
	})
}

// touch adds the steps of Conn.Touch.
func (t *thread) touch(name string) {
	t.step(name+" clock", func(m *memory, r *registers) string { r.now = m.now; return "" })
	t.step(name+" load", func(m *memory, r *registers) string {
		if r.stamp = m.stamp; r.now <= r.stamp {
			m.truth.last = max(m.truth.last, r.now)
			return name + " touched"
		}
		return ""
	})
	t.step(name+" swap", func(m *memory, r *registers) string {
		if m.stamp != r.stamp {
			return name + " load"
		}
		m.stamp = r.now
		m.truth.last = max(m.truth.last, r.now)
		return ""
	})
	t.step(name+" touched", goOn)
}

func touching() *thread {
	t := newThread("toucher")
	t.touch("touch")
	return t
}

// entering is Conn.Enter.
func entering(flaw string, phase int8) *thread {
	t := newThread("enter")
	t.step("stamp", func(m *memory, r *registers) string { r.now = m.now; return "" })
	raise := func(at *int8, now int8) {
		if *at < now || has(flaw, "enter stores the stamp") {
			*at = now
		}
	}
	steps := []threadStep{
		{"beat", func(m *memory, r *registers) string { raise(&m.beat, r.now); return "" }},
		{"paid", func(m *memory, r *registers) string { m.paid = r.now; return "" }},
		{"stamp of in", func(m *memory, r *registers) string { raise(&m.stamp, r.now); return "" }},
		{"wait", func(m *memory, r *registers) string { m.wait.since = r.now; return "" }},
		{"phase", func(m *memory, r *registers) string { m.phase = phase; return "" }},
	}
	if has(flaw, "enter stores the phase first") {
		steps[0], steps[4] = steps[4], steps[0]
	}
	for i, s := range steps {
		t.step("begin "+s.name, func(m *memory, r *registers) string {
			s.do(m, r)
			if i == len(steps)-1 {
				tr := &m.truth
				tr.phase, tr.began = phase, r.now
				tr.last, tr.paid, tr.since = max(tr.last, r.now), max(tr.paid, r.now), max(tr.since, r.now)
			}
			p := modelPhases[phase]
			r.at = far
			for _, limit := range []int8{p.idle, p.read, p.rate, p.whole} {
				if limit > 0 {
					r.at = min(r.at, r.now+1+limit)
				}
			}
			return ""
		})
	}
	t.pull("pull", flaw)
	return t
}

// pingingNow is what Shard.heartbeat does to the word in which the beginning of a
// phase is kept as well.
func pingingNow(flaw string) *thread {
	t := newThread("heartbeat")
	t.step("stamp", func(m *memory, r *registers) string { r.now = m.now; return "" })
	t.step("store", func(m *memory, r *registers) string {
		if m.beat < r.now || has(flaw, "a ping stores its stamp") {
			m.beat = r.now
		}
		return ""
	})
	return t
}

// pausing is Conn.PauseRead.
func pausing() *thread {
	t := newThread("pauser")
	t.step("stamp", func(m *memory, r *registers) string { r.now = m.now; return "" })
	t.step("load", func(m *memory, r *registers) string {
		if r.wait = m.wait; !r.wait.on {
			return "end"
		}
		return ""
	})
	t.step("swap", func(m *memory, r *registers) string {
		if m.wait != r.wait {
			return "load"
		}
		m.wait = modelWait{r.now, false}
		m.truth.waiting, m.truth.since = false, r.now
		return "end"
	})
	return t
}

// awaiting is Conn.AwaitRead.
func awaiting(flaw string) *thread {
	t := newThread("awaiter")
	t.step("stamp", func(m *memory, r *registers) string { r.now = m.now; return "" })
	t.await("await", "end", flaw)
	t.pull("pull", flaw)
	return t
}

// await adds the steps of flow.await and hastenFor. If there is a wait already
// it goes to the given step.
func (t *thread) await(name, already, flaw string) {
	t.step(name+" load", func(m *memory, r *registers) string {
		if r.wait = m.wait; r.wait.on {
			return already
		}
		return ""
	})
	excuse := func(m *memory, r *registers) string { m.paid += max(0, r.now-r.wait.since); return "" }
	if !has(flaw, "await waits before it pays") {
		t.step(name+" excuse", excuse)
	}
	begun := func(m *memory, r *registers) string {
		m.truth.begin(r.now)
		p := modelPhases[m.phase]
		if r.at = far; p.read > 0 {
			r.at = r.now + 1 + p.read
		}
		if p.rate > 0 {
			r.at = min(r.at, m.paid+1+p.rate)
		}
		return ""
	}
	if has(flaw, "hasten comes before the wait") {
		t.step(name+" hasten early", begun)
		t.pull(name+" pull early", "")
	}
	t.step(name+" swap", func(m *memory, r *registers) string {
		if m.wait != r.wait {
			return name + " load"
		}
		m.wait = modelWait{r.now, true}
		begun(m, r)
		if has(flaw, "hasten comes before the wait") {
			r.at = far
		}
		return ""
	})
	if has(flaw, "await waits before it pays") {
		t.step(name+" excuse late", excuse)
	}
}

// begin notes that a read has begun to wait; the time since the last one owes
// nothing.
func (tr *truth) begin(now int8) {
	if !tr.waiting {
		tr.paid += max(0, now-tr.since)
		tr.waiting, tr.since = true, now
	}
	tr.unmarked = false
}

// reading is a reader of a Waiter, whose first read, if it has begun, ends with
// a byte, and who begins another.
func reading(flaw string, begun bool) *thread {
	t := newThread("reader")
	if begun {
		t.touch("byte")
		t.step("unlock", func(m *memory, r *registers) string {
			m.mutex = false
			m.truth.waiting, m.truth.since = false, m.now
			return ""
		})
	}
	t.step("lock", func(m *memory, r *registers) string { m.mutex, m.truth.unmarked = true, true; return "" })
	t.step("begin stamp", func(m *memory, r *registers) string { r.now = m.now; return "" })
	t.step("renew load", func(m *memory, r *registers) string {
		switch r.wait = m.wait; {
		case r.wait == modelWait{r.now, true}:
			m.truth.begin(r.now)
			return "end"
		case !r.wait.on:
			return "await load"
		}
		return ""
	})
	t.step("renew excuse", func(m *memory, r *registers) string {
		m.paid += max(0, min(r.now-r.wait.since, r.now-m.stamp))
		return ""
	})
	t.step("renew swap", func(m *memory, r *registers) string {
		if m.wait != r.wait {
			return "renew load"
		}
		m.wait = modelWait{r.now, true}
		m.truth.begin(r.now)
		return "end"
	})
	t.await("await", "renew load", flaw)
	t.pull("pull", flaw)
	return t
}

// closing is Conn.Close, and then Track of the same Conn if it is to be.
func closing(flaw string, again bool) *thread {
	t := newThread("closer")
	t.lock("close")
	t.step("close cancel", func(m *memory, r *registers) string {
		if m.state.live || m.state.expired {
			m.pending = false
		}
		return ""
	})
	t.step("close load", func(m *memory, r *registers) string {
		if r.state = m.state; !r.state.live && !r.state.expired {
			return "close unlock"
		}
		return ""
	})
	t.step("close swap", func(m *memory, r *registers) string {
		if m.state != r.state {
			return "close load"
		}
		m.state = modelState{gen: r.state.gen}
		if r.state.live {
			m.outcomes[r.state.gen]++
		}
		return ""
	})
	t.unlock("close", "")
	if !again {
		return t
	}
	t.step("track load", func(m *memory, r *registers) string { r.state = m.state; return "" })
	t.step("track swap", func(m *memory, r *registers) string {
		if m.state != r.state {
			return "track load"
		}
		m.state = modelState{gen: r.state.gen + 1, live: true}
		m.truth = truth{}
		return ""
	})
	t.step("track stamp", func(m *memory, r *registers) string { r.now = m.now; return "" })
	t.step("begin beat", func(m *memory, r *registers) string { m.beat = r.now; return "" })
	t.step("begin paid", func(m *memory, r *registers) string { m.paid = r.now; return "" })
	t.step("begin stamp of in", func(m *memory, r *registers) string { m.stamp = r.now; return "" })
	t.step("begin wait", func(m *memory, r *registers) string { m.wait.since = r.now; return "" })
	t.step("begin phase", func(m *memory, r *registers) string {
		m.phase = 6
		m.truth = truth{phase: m.phase, began: r.now, last: r.now, since: r.now, paid: r.now}
		return ""
	})
	t.await("await", "begun", "")
	t.step("begun", func(m *memory, r *registers) string { m.truth.begin(r.now); return "" })
	t.lock("track")
	t.step("track live", func(m *memory, r *registers) string {
		if !m.state.live {
			return "track unlock"
		}
		return ""
	})
	t.place("track place", flaw)
	t.unlock("track", "")
	return t
}
