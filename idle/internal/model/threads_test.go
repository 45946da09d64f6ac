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
	t.step(name+" clock", func(m *memory, r *registers) string { r.now = m.now; return "" }).begin("Conn.Touch")
	t.step(name+" load", func(m *memory, r *registers) string {
		if r.now == m.stamp {
			arrives(m, r)
			return name + " touched"
		}
		return ""
	}).does("<in.stamp")
	t.step(name+" expects", func(m *memory, r *registers) string {
		if !m.state.expects {
			return name + " raise"
		}
		return ""
	}).does("<state")
	t.step(name+" expects no more", func(m *memory, r *registers) string {
		if !m.state.expects {
			return name + " raise"
		}
		m.state.expects = flaw == "an answer is expected forever"
		return ""
	}).does("<state +state").changes("answer")
	t.step(name+" stamp", func(m *memory, r *registers) string { r.at = m.stamp; return "" }).does("<in.stamp")
	t.step(name+" late", func(m *memory, r *registers) string {
		at := r.at
		if r.at = 0; at >= m.pinged && flaw != "an answer is expected late" {
			return name + " raise"
		}
		return ""
	}).does("<pinged")
	t.step(name+" raise beat", func(m *memory, r *registers) string {
		raiseTo(&m.beat, r.now)
		arrives(m, r)
		return name + " granted"
	}).does("<beat +beat")
	t.step(name+" raise", func(m *memory, r *registers) string {
		raiseTo(&m.stamp, r.now)
		arrives(m, r)
		return ""
	}).does("<in.stamp +in.stamp")
	t.step(name+" granted", func(m *memory, r *registers) string {
		if !m.state.granted {
			return name + " touched"
		}
		return ""
	}).does("<state")
	t.step(name+" take back", func(m *memory, r *registers) string { m.state.granted, m.excused = false, 0; return "" }).does("?state").changes("revoke")
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
	t.step("clock", func(m *memory, r *registers) string { r.beat = m.now; return "" }).begin("Conn.Beat")
	t.step("load beat", func(m *memory, r *registers) string {
		if m.beat != r.beat {
			return "slow clock"
		}
		raiseTo(&m.truth.beat, r.beat)
		m.anyActivity(r.beat)
		return "end"
	}).does("<beat")
	t.step("slow clock", func(m *memory, r *registers) string { r.beat = m.now; return "" }).does("<state")
	t.step("raise", func(m *memory, r *registers) string {
		if raiseTo(&m.beat, r.beat); flaw == "a beat stores its stamp" {
			m.beat = r.beat
		}
		raiseTo(&m.truth.beat, r.beat)
		m.anyActivity(r.beat)
		return ""
	}).does("<beat +beat")
	t.step("granted", func(m *memory, r *registers) string {
		if m.state.granted {
			m.state.granted, m.excused = false, 0
		}
		return ""
	}).does("<state +state").changes("revoke")
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
	t.step(name+" clock", func(m *memory, r *registers) string { r.now = m.now; return "" }).begin("Conn.PauseRead").does("<in.wait <phase")
	t.step(name+" load", func(m *memory, r *registers) string {
		if r.wait = m.wait; !r.wait.on {
			return name + " paused"
		}
		return ""
	}).does("<in.wait")
	t.step(name+" swap", func(m *memory, r *registers) string {
		if m.wait != r.wait {
			return name + " load"
		}
		m.wait = modelWait{r.now, false}
		m.truth.wait = modelWait{max(r.now, m.letOff), false}
		return ""
	}).does("?in.wait")
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
	t.step("delivering", goOn).begin("Conn.Deliver")
	t.step("deliver load", func(m *memory, r *registers) string {
		switch r.state = m.state; {
		case !m.state.live:
			return "delivered"
		case m.state.ending && flaw != "a reader takes no mark back":
			return ""
		case m.state.overdue && flaw != "a byte that is delivered leaves a read overdue":
			return ""
		}
		m.deliver()
		return "delivered"
	}).does("<state")
	t.step("deliver swap", func(m *memory, r *registers) string {
		if m.state != r.state {
			return "deliver load"
		}
		m.state.ending = false
		m.state.overdue = m.state.overdue && flaw == "a byte that is delivered leaves a read overdue"
		m.deliver()
		return ""
	}).does("<state +state").changes("deliver")
	t.step("delivered", func(m *memory, r *registers) string { r.state = modelState{}; return "" })
}

// deliver notes that a byte is delivered.
func (m *memory) deliver() { m.answers, m.truth.state.overdue = true, false }

// readingLate is a reader that begins to wait, whose read then ends with a byte. It may deliver
// that.
func readingLate(flaw string, delivers bool) *thread {
	t := newThread("reader")
	t.await("await", flaw)
	t.touch("byte")
	t.pause("pause")
	if delivers {
		t.deliver(flaw)
	}
	return t
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
	phase := func(m *memory, r *registers) string {
		p := modelPhases[m.phase]
		r.version, r.at = m.phase, modelLimits{read: p.read, rate: p.rate}.soonest(r.now)
		return ""
	}
	excuse := func(m *memory, r *registers) string { m.paid += max(0, r.now-r.wait.since); return "" }
	hasten := func() {
		if flaw != "await hastens by an older phase" {
			t.step(name+" phase", phase).does("<phase")
		}
		t.pull(name+" pull", flaw)
		t.step(name+" counted", func(m *memory, r *registers) string {
			if modelPhases[r.version].rate == 0 {
				return name + " awaited"
			}
			return ""
		})
		t.step(name+" paid", func(m *memory, r *registers) string {
			r.at = m.paid + 1 + modelPhases[r.version].rate
			if r.now <= r.at || flaw == "await is never overdue" || flaw == "await is overdue before it pays" {
				return name + " pull by what is paid hasten"
			}
			return ""
		}).does("<in.paid")
		t.step(name+" overdue", func(m *memory, r *registers) string {
			if m.state.overdue || flaw == "await is overdue in the next phase" {
				m.state.overdue = true
				return name + " pull by what is paid hasten"
			}
			m.state.overdue = true
			return ""
		}).does("?state").changes("overdue-in")
		t.step(name+" still overdue", func(m *memory, r *registers) string {
			if r.now > m.paid+1+modelPhases[r.version].rate {
				return name + " pull by what is paid hasten"
			}
			return ""
		}).does("<in.paid")
		t.step(name+" not overdue", func(m *memory, r *registers) string { m.state.overdue = false; return "" }).
			does("<state +state").changes("overdue-in-vain")
		t.pull(name+" pull by what is paid", flaw)
	}
	t.step(name+" clock", func(m *memory, r *registers) string { r.now = m.now; return "" }).begin("Conn.AwaitRead").does("<in.wait <phase")
	if flaw == "await hastens by an older phase" {
		t.step(name+" phase", phase)
	}
	t.step(name+" load", func(m *memory, r *registers) string {
		if r.wait = m.wait; r.wait.on {
			return name + " awaited"
		}
		if flaw == "await is overdue before it pays" {
			m.state.overdue = r.now > m.paid+1+modelPhases[m.phase].rate
		}
		return ""
	}).does("<in.wait")
	retry := name + " load"
	if flaw != "await waits before it pays" {
		t.step(name+" had", func(m *memory, r *registers) string {
			if r.had, r.paid = m.paid, m.paid+max(0, r.now-r.wait.since); r.paid == r.had {
				return name + " paid for"
			}
			return ""
		}).does("<in.paid")
		t.step(name+" excuse", func(m *memory, r *registers) string {
			if m.paid != r.had {
				return name + " load"
			}
			m.paid = r.paid
			return name + " paid for"
		}).does("?in.paid")
		if flaw != "await takes nothing back" {
			retry = name + " moved"
			t.step(retry, func(m *memory, r *registers) string {
				if r.at = m.wait.since; r.paid <= max(r.had, r.at) {
					r.at = 0
					return name + " load"
				}
				return ""
			}).does("<in.wait")
			t.step(name+" take back", func(m *memory, r *registers) string {
				if m.paid == r.paid {
					m.paid = max(r.had, r.at)
				}
				r.at = 0
				return name + " load"
			}).does("?in.paid")
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
	}).does("?in.wait")
	if flaw == "await waits before it pays" {
		t.step(name+" excuse late", excuse)
	}
	if flaw != "hasten comes before the wait" {
		hasten()
	}
	t.step(name+" awaited", func(m *memory, r *registers) string {
		r.look, r.wait, r.version = modelWords{}, modelWait{}, noPhase
		return ""
	})
}

// await notes that a read has begun to wait. The pause before it does not count.
func (w *modelWords) await(now int8) {
	if !w.wait.on {
		w.paid += max(0, now-w.wait.since)
		w.wait = modelWait{now, true}
		if rate := modelPhases[w.phase].rate; rate > 0 && now-w.paid > rate+1 {
			w.state.overdue = true
		}
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
