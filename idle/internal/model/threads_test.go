package model

// The threads of the model that report what happens on a connection.

// ticking advances the clock.
func ticking(ticks int8) maker {
	return func(flaw string) *thread {
		t := newThread("clock")
		for i := range ticks {
			t.do("tick "+string('1'+rune(i)), func(m *memory, _ *registers) { m.now++ })
		}
		return t
	}
}

// raiseTo moves a word forward to the given tick, never back.
func raiseTo(at *int8, tick int8) { *at = max(*at, tick) }

// touch adds the steps of Conn.Touch, Conn.Use or Conn.Beat. It returns at once if the word has the present tick.
func (t *thread) touch(name, flaw string, of func(*modelWords) *int8) {
	t.do(name+" clock", func(m *memory, r *registers) { r.now = m.now })
	t.step(name+" load", func(m *memory, r *registers) string {
		if r.now == *of(&m.modelWords) {
			raiseTo(of(&m.truth), r.now)
			return name + " touched"
		}
		return ""
	})
	t.do(name+" clock again", func(m *memory, r *registers) { r.now = m.now })
	t.do(name+" raise", func(m *memory, r *registers) {
		if raiseTo(of(&m.modelWords), r.now); flaw == "a stamp is stored" {
			*of(&m.modelWords) = r.now
		}
		raiseTo(of(&m.truth), r.now)
	})
	t.step(name+" touched", goOn)
}

func (t *thread) touchIn(name string) {
	t.touch(name, "", func(w *modelWords) *int8 { return &w.stamp })
}

// touching is Conn.Touch, so many times.
func touching(times int) maker {
	return func(flaw string) *thread {
		t := newThread("toucher")
		for i := range times {
			t.touchIn("touch " + string('1'+rune(i)))
		}
		return t
	}
}

// using is Conn.Use, and beating Conn.Beat.
func using(flaw string) *thread {
	t := newThread("user")
	t.touch("use", flaw, func(w *modelWords) *int8 { return &w.used })
	return t
}

func beating(flaw string) *thread {
	t := newThread("beater")
	t.touch("beat", flaw, func(w *modelWords) *int8 { return &w.beat })
	return t
}

// pausing is Conn.PauseRead.
func pausing(string) *thread {
	t := newThread("pauser")
	t.pause("pause")
	return t
}

// pause adds the steps of Conn.PauseRead.
func (t *thread) pause(name string) {
	t.step(name+" load", func(m *memory, r *registers) string {
		p, _ := m.in(m.phase)
		r.limits = modelPhases[p]
		if r.wait = m.wait; !r.wait.on {
			return name + " paused"
		}
		return ""
	})
	t.step(name+" counts", func(m *memory, r *registers) string {
		if r.now, r.real = r.wait.since, r.wait.since; r.limits.rate > 0 { // otherwise it doesn't matter how long the pause is
			return ""
		}
		return name + " swap"
	})
	t.instant(name)
	t.step(name+" swap", func(m *memory, r *registers) string {
		if m.wait != r.wait {
			return name + " reload"
		}
		m.wait = modelWait{since: r.now}
		if m.truth.wait = m.wait; m.truth.state.exact {
			m.truth.wait.since = r.real
		}
		return name + " paused"
	})
	t.step(name+" reload", func(m *memory, r *registers) string {
		if r.wait = m.wait; !r.wait.on {
			return name + " paused"
		}
		return name + " counts"
	})
	t.do(name+" paused", func(m *memory, r *registers) {
		r.wait, r.limits, r.real, r.exact = modelWait{}, modelLimits{}, 0, false
	})
}

// instant adds the steps of Conn.instant under a rate. The coarse clock has every second tick only.
func (t *thread) instant(name string) {
	t.do(name+" exact", func(m *memory, r *registers) { r.exact = m.state.exact })
	t.do(name+" clock", func(m *memory, r *registers) {
		if r.now, r.real = m.now, m.now; !r.exact {
			r.now -= m.now % 2
		}
	})
}

// delivering is a reader whose read has ended with a byte.
func delivering(flaw string) *thread {
	t := newThread("reader")
	if flaw == "delivered before it is reported" {
		t.deliver(flaw)
	}
	t.touchIn("byte")
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
	})
	t.do("delivered", func(m *memory, r *registers) { r.state = modelState{} })
}

// awaiting is Conn.AwaitRead.
func awaiting(flaw string) *thread {
	t := newThread("awaiter")
	t.await("await", flaw)
	return t
}

// await adds the steps of Conn.AwaitRead. Whether a pause is paid for depends on the phase at first, and when the
// connection has to be checked on the phase once the wait has begun: an Enter that stores it later does that itself.
func (t *thread) await(name, flaw string) {
	hasten := func() {
		t.step(name+" phase again", func(m *memory, r *registers) string {
			had := r.limits.rate
			if flaw != "await hastens by an older phase" {
				p, _ := m.in(m.phase)
				r.limits = modelPhases[p]
			}
			r.at = r.limits.soonestOfWait(r.now)
			if had > 0 || r.limits.rate == 0 || flaw == "a policy that comes before the wait has it pay for nothing" {
				return name + " is let off"
			}
			return ""
		})
		t.letOff(name+" lets off", flaw)
		t.step(name+" is let off", goOn)
		t.pull(name+" pull", flaw)
		t.jump(name+" counts", name+" awaited", func(_ *memory, r *registers) bool { return r.limits.rate == 0 })
		t.do(name+" paid", func(m *memory, r *registers) { r.at = m.paid })
		t.do(name+" is exact", func(m *memory, r *registers) {
			if r.at += 1 + r.limits.slow; m.state.exact {
				r.at += r.limits.rate - r.limits.slow
			}
		})
		t.pull(name+" pull by what is paid", flaw)
	}
	t.jump(name+" waits", name+" awaited", func(m *memory, _ *registers) bool { return m.wait.on })
	t.do(name+" phase", func(m *memory, r *registers) {
		p, from := m.in(m.phase)
		r.limits, r.from = modelPhases[p], from
	})
	if flaw == "await reads the clock before the wait" {
		t.instant(name)
	}
	t.step(name+" load", func(m *memory, r *registers) string {
		if r.wait = m.wait; r.wait.on {
			return name + " awaited"
		}
		return ""
	})
	t.step(name+" counts before", func(m *memory, r *registers) string {
		if r.limits.rate == 0 {
			r.now, r.real = m.now, m.now
			return name + " paid for"
		}
		return ""
	})
	if flaw != "await reads the clock before the wait" {
		t.instant(name)
	}
	paid := func(r *registers) int8 { return paidFor(r.had, r.from, r.wait.since, r.now, r.exact) }
	t.step(name+" had", func(m *memory, r *registers) string {
		if r.had = m.paid; r.had == paid(r) || flaw == "await waits before it pays" {
			return name + " paid for"
		}
		return ""
	})
	t.step(name+" excuse", func(m *memory, r *registers) string {
		if m.paid != r.had {
			return name + " load"
		}
		m.paid = paid(r)
		return ""
	})
	t.step(name+" paid for", goOn)
	if flaw == "hasten comes before the wait" {
		hasten()
	}
	t.step(name+" swap", func(m *memory, r *registers) string {
		if r.had = 0; m.wait != r.wait {
			return name + " load"
		}
		m.wait = modelWait{since: r.now, on: true}
		now, exact := r.now, r.exact
		if m.truth.state.exact {
			now, exact = r.real, true
		}
		m.truth.await(now, exact)
		return ""
	})
	if flaw == "await waits before it pays" {
		t.do(name+" excuse late", func(m *memory, r *registers) { r.had = m.paid; m.paid = paid(r); r.had = 0 })
	}
	if flaw != "hasten comes before the wait" {
		hasten()
	}
	t.do(name+" awaited", func(m *memory, r *registers) {
		r.wait, r.limits, r.from, r.at, r.real, r.exact = modelWait{}, modelLimits{}, 0, 0, 0, false
	})
}

// paidFor returns up to when waits are paid for after a pause. If it isn't measured, it may have begun a tick of the coarse clock later.
func paidFor(had, from, since, now int8, exact bool) int8 {
	pause := now - max(since, from)
	if !exact {
		pause -= 2
	}
	return max(had, from) + max(0, pause)
}

// await notes that a read has begun to wait. The pause before it does not count.
func (w *modelWords) await(now int8, exact bool) {
	if !w.wait.on {
		if modelPhases[w.phase].rate > 0 {
			w.paid = paidFor(w.paid, w.from, w.wait.since, now, exact)
		}
		w.wait = modelWait{since: now, on: true}
	}
}

// reading is a reader: its read ends with a byte, and it begins another one. A
// read that has not said that it waits is none yet, so the mutex that it holds is
// left out.
func reading(flaw string) *thread {
	t := newThread("reader")
	t.touchIn("byte")
	t.pause("pause")
	t.await("next", flaw)
	return t
}
