package model

import (
	"slices"
	"testing"
)

// atEnd looks for what is wrong once all is done.
func atEnd(m *memory) {
	if live := m.outcomes == 0; live != m.state.live || m.outcomes > 1 {
		m.fault = "the connection does not have one outcome"
		return
	}
	if !m.state.live {
		if m.pending {
			m.fault = "ended, and still in a slot"
		}
		return
	}
	at, what := m.current().next()
	must, _ := m.truth.next()
	if what == toMeasure { // by the coarse clock, so not exactly when the truth asks for it
		must = at
	}
	switch {
	case max(m.stamp, m.used, m.wait.since, m.began, m.beat, m.pinged) > m.now:
		m.fault = "a word is ahead of the clock"
	case !m.pending:
		m.fault = "live, but in no slot"
	case m.state.asking:
		m.fault = "being asked forever"
	case m.state.ending:
		m.fault = "marked as ending forever"
	case m.truth.wait.on && !m.wait.on:
		m.fault = "a wait does not count"
	case m.wait.on && !m.truth.wait.on:
		m.fault = "a wait that is over counts"
	case m.placed > at:
		m.fault = "placed too late"
	case at < must:
		m.fault = "the deadline is too early"
	}
}

// atEndExactly also looks for a deadline that is later than it has to be.
func atEndExactly(m *memory) {
	atEnd(m)
	if at, what := m.current().next(); m.fault == "" && m.state.live && what != toMeasure {
		if must, _ := m.truth.next(); at > must {
			m.fault = "the deadline is too late"
		}
	}
}

// TestModel tries all interleavings of each scenario, and of each of its flawed
// variants, which must be found faulty.
func TestModel(t *testing.T) {
	states, ways := 0, 0.0
	for _, s := range slices.Concat(scenarios, orderScenarios) {
		try := func(flaw string, final func(*memory)) *exploration[memory, registers] {
			x := &exploration[memory, registers]{final: final}
			for _, make := range s.threads {
				x.threads = append(x.threads, &make(flaw).threadOf)
			}
			ways += x.explore(s.memory)
			states += len(x.seen)
			return x
		}
		t.Run(s.name, func(t *testing.T) {
			if s.large && testing.Short() {
				t.Skip("many states")
			}
			final := atEndExactly
			if s.late != "" || s.limit != "" {
				final = atEnd
			}
			x := try("", final)
			t.Logf("%d states, %.3g interleavings", len(x.seen), x.ways)
			switch {
			case x.fault != "" && s.limit == "":
				t.Errorf("%v", x)
			case x.fault == "" && s.limit != "":
				t.Errorf("no longer so: %s", s.limit)
			case s.limit != "":
				t.Logf("known limit: %s. %v", s.limit, x)
			}
			if s.late != "" {
				x := try("", atEndExactly)
				if x.fault == "" {
					t.Errorf("no longer so: %s", s.late)
				}
				t.Logf("known to be late: %s. %v", s.late, x)
			}
			for _, flaw := range s.flaws {
				t.Run(flaw, func(t *testing.T) {
					x := try(flaw, final)
					if x.fault == "" {
						t.Error("the flaw is not found")
					}
					t.Logf("%s, by %d steps, after %d states", x.fault, len(x.trace), len(x.seen))
				})
			}
		})
	}
	t.Logf("%d states, %.3g interleavings", states, ways)
}
