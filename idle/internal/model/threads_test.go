package model

// The threads of the model that report what happens on a connection.

// ticking advances the clock.
func ticking(ticks int8) *thread {
	t := newThread("clock")
	for i := range ticks {
		t.step("tick "+string('1'+rune(i)), func(m *memory, _ *registers) string { m.now++; return "" })
	}
	return t
}

// raiseTo moves a word forward to the given tick, never back.
func raiseTo(at *int8, tick int8) { *at = max(*at, tick) }

// touch adds the steps of Conn.Touch, for use of the connection.
func (t *thread) touch(name string) { t.input(name, "", false) }

// input adds the steps of Conn.Touch. isAnswer says what has arrived, which the code can only
// guess.
func (t *thread) input(name, flaw string, isAnswer bool) {
	arrives := func(m *memory, r *registers) {
		if isAnswer {
			raiseTo(&m.truth.beat, r.now)
			m.anyActivity(r.now)
		} else {
			m.activity(r.now)
		}
	}
	t.step(name+" clock", func(m *memory, r *registers) string { r.now = m.now; return "" })
	t.step(name+" load", func(m *memory, r *registers) string {
		if r.now == m.stamp {
			arrives(m, r)
			return name + " touched"
		}
		return ""
	})
	t.step(name+" expects", func(m *memory, r *registers) string {
		if !m.state.expects {
			return name + " raise"
		}
		return ""
	})
	t.step(name+" expects no more", func(m *memory, r *registers) string {
		if r.keepalive = m.state.expects; flaw != "an answer is expected forever" {
			m.state.expects = false
		}
		return ""
	}).changes("answer")
	t.step(name+" late", func(m *memory, r *registers) string {
		if m.stamp >= m.pinged && flaw != "an answer is expected late" {
			r.keepalive = false
		}
		return ""
	})
	t.step(name+" raise", func(m *memory, r *registers) string {
		if r.keepalive {
			raiseTo(&m.beat, r.now)
		} else {
			raiseTo(&m.stamp, r.now)
		}
		r.keepalive = false
		arrives(m, r)
		return ""
	})
	t.step(name+" granted", func(m *memory, r *registers) string {
		if !m.state.granted {
			return name + " touched"
		}
		return ""
	})
	t.step(name+" take back", func(m *memory, r *registers) string { m.state.granted, m.excused = false, 0; return "" }).changes("revoke")
	t.step(name+" touched", goOn)
}

// activity notes that activity was reported at the given tick.
func (m *memory) activity(now int8) {
	raiseTo(&m.truth.stamp, now)
	m.anyActivity(now)
}

// anyActivity notes that activity was reported at the given tick, used or not.
func (m *memory) anyActivity(now int8) {
	raiseTo(&m.active, now)
	if now >= m.excused {
		m.excused = 0
	}
}

// touching is Conn.Touch, so many times.
func touching(times int) *thread {
	t := newThread("toucher")
	for i := range times {
		t.touch("touch " + string('1'+rune(i)))
	}
	return t
}

// answering reports, if a ping has been sent, its answer and then use.
func answering(flaw string, usedBefore bool) *thread {
	t := newThread("reader")
	if usedBefore {
		t.input("use before", flaw, false)
	}
	t.step("is pinged", func(m *memory, _ *registers) string {
		if !m.sent {
			return "end"
		}
		return ""
	})
	t.input("answer", flaw, true)
	t.input("use", flaw, false)
	return t
}

// beating is Conn.Beat. It returns at once only if the beat is of the present tick.
func beating(flaw string) *thread {
	t := newThread("beater")
	t.step("clock", func(m *memory, r *registers) string { r.beat = m.now; return "" })
	t.step("load beat", func(m *memory, r *registers) string {
		if m.beat != r.beat {
			return "slow clock"
		}
		raiseTo(&m.truth.beat, r.beat)
		m.anyActivity(r.beat)
		return "end"
	})
	t.step("slow clock", func(m *memory, r *registers) string { r.beat = m.now; return "" })
	t.step("raise", func(m *memory, r *registers) string {
		if raiseTo(&m.beat, r.beat); flaw == "a beat stores its stamp" {
			m.beat = r.beat
		}
		raiseTo(&m.truth.beat, r.beat)
		m.anyActivity(r.beat)
		return ""
	})
	t.step("granted", func(m *memory, r *registers) string {
		if m.state.granted {
			m.state.granted, m.excused = false, 0
		}
		return ""
	}).changes("revoke")
	return t
}

// pausing is Conn.PauseRead.
func pausing() *thread {
	t := newThread("pauser")
	t.pause("pause")
	return t
}

// pause adds the steps of Conn.PauseRead. The fraction of a tick that the code
// takes off paid is left out.
func (t *thread) pause(name string) {
	t.step(name+" clock", func(m *memory, r *registers) string { r.now = m.now; return "" })
	t.step(name+" load", func(m *memory, r *registers) string {
		if r.wait = m.wait; !r.wait.on {
			return name + " paused"
		}
		return ""
	})
	t.step(name+" swap", func(m *memory, r *registers) string {
		if m.wait != r.wait {
			return name + " load"
		}
		m.wait = modelWait{r.now, false}
		m.truth.wait = modelWait{max(r.now, m.letOff), false}
		return ""
	})
	t.step(name+" paused", func(m *memory, r *registers) string { r.wait = modelWait{}; return "" })
}

// delivering is a reader whose read has ended with a byte.
func delivering(flaw string) *thread {
	t := newThread("reader")
	if flaw == "delivered before it is reported" {
		t.deliver(flaw)
	}
	t.touch("byte")
	t.pause("pause")
	if flaw != "delivered before it is reported" {
		t.deliver(flaw)
	}
	return t
}

// deliver adds the steps of Conn.Deliver.
func (t *thread) deliver(flaw string) {
	t.step("deliver load", func(m *memory, r *registers) string {
		switch r.state = m.state; {
		case !m.state.live:
			return "delivered"
		case m.state.ending && flaw != "a reader takes no mark back":
			return ""
		}
		m.answers = true
		return "delivered"
	})
	t.step("deliver swap", func(m *memory, r *registers) string {
		if m.state != r.state {
			return "deliver load"
		}
		m.state.ending = false
		m.answers = true
		return ""
	}).changes("deliver")
	t.step("delivered", func(m *memory, r *registers) string { r.state = modelState{}; return "" })
}

// awaiting is Conn.AwaitRead.
func awaiting(flaw string) *thread {
	t := newThread("awaiter")
	t.await("await", flaw)
	return t
}

// await adds the steps of Conn.AwaitRead. The phase is loaded after the wait has
// begun, for hasten: an Enter that stores it later places the connection itself.
// That the code also loads it at first, to choose the clock, is left out.
func (t *thread) await(name, flaw string) {
	phase := func(m *memory, r *registers) string { r.look.phase = m.phase; return "" }
	excuse := func(m *memory, r *registers) string { m.paid += max(0, r.now-r.wait.since); return "" }
	hasten := func() {
		if flaw != "await hastens by an older phase" {
			t.step(name+" phase", phase)
		}
		t.step(name+" paid", func(m *memory, r *registers) string {
			p := modelPhases[r.look.phase]
			if r.at = far; p.read > 0 {
				r.at = r.now + 1 + p.read
			}
			if p.rate > 0 {
				r.at = min(r.at, m.paid+1+p.rate)
			}
			r.look = modelWords{}
			return ""
		})
		t.pull(name+" pull", flaw)
	}
	t.step(name+" clock", func(m *memory, r *registers) string { r.now = m.now; return "" })
	if flaw == "await hastens by an older phase" {
		t.step(name+" phase", phase)
	}
	t.step(name+" load", func(m *memory, r *registers) string {
		if r.wait = m.wait; r.wait.on {
			return name + " awaited"
		}
		return ""
	})
	retry := name + " load"
	if flaw != "await waits before it pays" {
		t.step(name+" had", func(m *memory, r *registers) string {
			if r.had, r.paid = m.paid, m.paid+max(0, r.now-r.wait.since); r.paid == r.had {
				return name + " paid for"
			}
			return ""
		})
		t.step(name+" excuse", func(m *memory, r *registers) string {
			if m.paid != r.had {
				return name + " load"
			}
			m.paid = r.paid
			return name + " paid for"
		})
		if flaw != "await takes nothing back" {
			retry = name + " moved"
			t.step(retry, func(m *memory, r *registers) string { r.at = m.wait.since; return "" })
			t.step(name+" take back", func(m *memory, r *registers) string {
				if m.paid == r.paid && r.paid > max(r.had, r.at) {
					m.paid = max(r.had, r.at)
				}
				r.at = 0
				return name + " load"
			})
		}
		t.step(name+" paid for", goOn)
	}
	if flaw == "hasten comes before the wait" {
		hasten()
	}
	t.step(name+" swap", func(m *memory, r *registers) string {
		if m.wait != r.wait {
			return retry
		}
		r.had, r.paid = 0, 0
		m.wait = modelWait{r.now, true}
		m.truth.await(r.now)
		return ""
	})
	if flaw == "await waits before it pays" {
		t.step(name+" excuse late", excuse)
	}
	if flaw != "hasten comes before the wait" {
		hasten()
	}
	t.step(name+" awaited", func(m *memory, r *registers) string { r.look, r.wait = modelWords{}, modelWait{}; return "" })
}

// await notes that a read has begun to wait. The pause before it does not count.
func (w *modelWords) await(now int8) {
	if !w.wait.on {
		w.paid += max(0, now-w.wait.since)
		w.wait = modelWait{now, true}
	}
}

// reading is a reader: its read ends with a byte, and it begins another one. A
// read that has not said that it waits is none yet, so the mutex that it holds is
// left out.
func reading(flaw string) *thread {
	t := newThread("reader")
	t.touch("byte")
	t.pause("pause")
	t.await("next", flaw)
	return t
}
