package model

import (
	"slices"
	"strings"
	"testing"
)

// progress is how far a thread of the model has come in an operation of Programs.
type progress struct{ operation, at int16 }

// runs compares what the threads of the model do with Programs. The model has one flow: that
// of reading or that of writing. To it, the words of the other one do not exist, nor do flags
// that it doesn't have.
type runs struct {
	programs *grammar
	writes   bool
	numbers  map[string]int16 // of operations
	machines []*machine
	made     taken
}

func newRuns(programs string, writes bool) *runs {
	return &runs{programs: parse(programs), writes: writes, numbers: map[string]int16{}, machines: []*machine{nil}, made: taken{}}
}

// changed reports whether the word of that name differs.
func changed(word string, was, is *memory) bool {
	switch word {
	case "phase":
		return was.phase != is.phase
	case "placed":
		return was.placed != is.placed
	case "state":
		return was.state != is.state
	case "in.at":
		return was.wait != is.wait
	case "lastIn":
		return was.stamp != is.stamp
	case "used":
		return was.used != is.used
	case "unread":
		return was.unread != is.unread
	case "in.paid":
		return was.paid != is.paid
	case "began":
		return was.began != is.began
	case "beat":
		return was.beat != is.beat
	case "pinged":
		return was.pinged != is.pinged
	}
	panic("model: there is no word " + word)
}

// others are the words that are not in the model, if its flow is that of reading.
var others = []string{"lastOut", "out.at", "out.paid", "born", "told"}

// ofWriting has what stands for what if the flow is that of writing.
var ofWriting = strings.NewReplacer("in.", "out.", "lastIn", "lastOut",
	"Conn.Touch", "Conn.TouchOut", "Conn.AwaitRead", "Conn.AwaitWrite", "Conn.PauseRead", "Conn.PauseWrite")

// isKnown reports whether the model has the word of a token, and the flags that it changes.
func (r *runs) isKnown(token string) bool {
	if name, ok := strings.CutPrefix(token, ">state."); ok {
		i := slices.IndexFunc(Transitions, func(t Transition) bool { return t.Name == name })
		return (Transitions[i].Set|Transitions[i].Clear)&modelled != 0
	}
	if word := token[1:]; r.writes {
		return word != "lastIn" && word != "born" && word != "told" && !strings.HasPrefix(word, "in.")
	}
	return !slices.Contains(others, token[1:])
}

// number returns that of an operation.
func (r *runs) number(operation string) int16 {
	if r.writes {
		operation = ofWriting.Replace(operation)
	}
	n, ok := r.numbers[operation]
	if !ok {
		a := r.programs.automaton(operation)
		for s, tokens := range a.next {
			for token, to := range tokens {
				if !r.isKnown(token) {
					a.silent[s] = append(a.silent[s], to...)
					delete(tokens, token)
				}
			}
		}
		n = int16(len(r.machines))
		r.numbers[operation] = n
		r.machines = append(r.machines, newMachine(a))
	}
	return n
}

// took returns what an exploration is to be told of the steps of some threads. It's a fault
// if Programs don't have such a step.
func (r *runs) took(threads []*threadOf[memory, registers]) func(*step, int, *situation[memory, registers], *situation[memory, registers]) {
	return func(s *step, thread int, now, next *situation[memory, registers]) {
		done := &next.done[thread]
		steps := threads[thread].steps
		if s.first != "" {
			r.end(done, &next.memory)
			done.operation = r.number(s.first)
		}
		r.do(s, done, &now.memory, &next.memory, next.pc[thread] <= now.pc[thread])
		if s.skips {
			for i := now.pc[thread] + 1; i < next.pc[thread]; i++ {
				r.do(&steps[i], done, &now.memory, &next.memory, false)
			}
		}
		if int(next.pc[thread]) == len(steps) {
			r.end(done, &next.memory)
		}
	}
}

var modelWordNames = []string{"phase", "placed", "state", "in.at", "lastIn", "used", "unread", "in.paid", "began", "beat", "pinged"}

// do adds what a step has done. back says that it goes back: then it was a swap that has failed.
func (r *runs) do(s *step, done *progress, was, is *memory, back bool) {
	for _, w := range modelWordNames {
		if changed(w, was, is) && !slices.ContainsFunc(s.words, func(does string) bool { return does[0] != '<' && does[1:] == w }) {
			is.fault = "a step stores " + w + ", and doesn't say so"
			return
		}
	}
	for _, w := range s.words {
		token, writes := w, w[0] != '<'
		switch {
		case w[1:] == "state" && writes && was.state != is.state:
			name := madeBy(s, was.state, is.state)
			if name == "" {
				is.fault = "a transition of the state that is not in Transitions"
				return
			}
			r.made[name] = true
			token = ">state." + name
		case writes && changed(w[1:], was, is) || w[0] == '!' && !back:
			token = ">" + w[1:]
		case w[0] == '?' || w[0] == '!':
			token = "<" + w[1:]
		case w[0] == '+':
			continue
		}
		if r.writes {
			token = ofWriting.Replace(token)
		}
		if !r.isKnown(token) {
			continue
		}
		if done.operation == 0 {
			is.fault = token + " is part of no operation"
			return
		}
		m := r.machines[done.operation]
		at, ok := m.step(int(done.at), []string{token})
		if !ok {
			is.fault = "the program has no " + token + "; it has " + strings.Join(m.expected(int(done.at)), " ")
			return
		}
		done.at = int16(at)
	}
}

// end ends an operation.
func (r *runs) end(done *progress, is *memory) {
	if m := r.machines[done.operation]; m != nil && !m.mayEnd(int(done.at)) {
		is.fault = "an operation has not ended: its program goes on with " + strings.Join(m.expected(int(done.at)), " ")
	}
	*done = progress{}
}

// edges notes which tokens of Programs were taken, and which could have been.
func (r *runs) edges(taken map[string]bool) {
	for _, m := range r.machines[1:] {
		useful := m.useful()
		for _, tokens := range m.of.next {
			for _, to := range tokens {
				for _, s := range to {
					if token := m.of.after[s]; !taken[token] {
						taken[token] = false
					}
				}
			}
		}
		for at, tokens := range m.next {
			for token, to := range tokens {
				if to < 0 {
					continue
				}
				for _, s := range m.sets[at] {
					for _, s := range m.of.next[s][token] {
						if useful[to][s] {
							taken[m.of.after[s]] = true
						}
					}
				}
			}
		}
	}
}

// useful returns, for each set of states that was reached, those from which what was done next
// leads on, or with which the operation could end.
func (m *machine) useful() []map[int]bool {
	useful := make([]map[int]bool, len(m.sets))
	for at := range m.sets {
		useful[at] = map[int]bool{}
	}
	for more := true; more; {
		more = false
		for at, set := range m.sets {
			for _, s := range set {
				if useful[at][s] {
					continue
				}
				for _, then := range m.of.closure([]int{s}) {
					is := then == m.of.accept
					for token, to := range m.next[at] {
						is = is || to >= 0 && slices.ContainsFunc(m.of.next[then][token], func(s int) bool { return useful[to][s] })
					}
					if is {
						useful[at][s], more = true, true
						break
					}
				}
			}
		}
	}
	return useful
}

// checkPrograms looks for operations, and steps of them, that no thread of the model has done,
// and that leftOut doesn't explain.
func checkPrograms(t *testing.T, all ...*runs) {
	taken := map[string]bool{}
	for _, r := range all {
		r.edges(taken)
		for name := range r.numbers {
			taken[name] = true
		}
	}
	for name := range parse(Programs).programs {
		taken[name] = taken[name] || !isOperation(name)
	}
	for what, is := range taken {
		if reason := leftOut[what]; is && reason != "" {
			t.Errorf("%s is in the model: no longer so: %s", what, reason)
		} else if !is && reason == "" {
			t.Errorf("no thread of the model does %s", what)
		}
	}
	for what := range leftOut {
		if _, known := taken[what]; !known {
			t.Errorf("Programs have no %s", what)
		}
	}
}

const (
	byBytes   = "bytes that pay are left out"
	oneFlow   = "the other flow is left out, or has no such scenario"
	noHistory = "the model begins after Track, and a connection ends once"
	countedIn = "it's the phase in which the end is counted"
)

// leftOut are the operations, and the steps of operations in the model, that it leaves out.
var leftOut = map[string]string{
	"Conn.Received":     byBytes,
	"Conn.Sent":         byBytes,
	"Conn.RestartWrite": oneFlow,
	"Shard.Track":       noHistory,
	"Shard.takeOne":     "Close of a Tracker is that of all its connections",
	"Shard.isDue":       "a pass has the connection in hand already",
	"Shard.ping.func2":  "a Ping never returns",
	"Shard.tell.func1":  "OnDrain is left out",
	"Shard.tell.func2":  "OnDrain is left out",
	"Shard.takeTurns":   "a drain is left out",

	"pay 1: <$1.at":         byBytes,
	"pay 2: <$1.paid":       byBytes,
	"pay 4: <$1.paid":       byBytes,
	"pay 5: <$1.at":         byBytes,
	"pay 6: <$1.paid":       byBytes,
	"pay 9: >$1.paid":       byBytes,
	"lastUse 5: <lastOut":   oneFlow,
	"isInUse 3: <out.at":    oneFlow,
	"isInUse 7: <out.at":    oneFlow,
	"isBusy 5: <state":      "OnDrain is left out",
	"ask 8: >placed":        "a drain is left out",
	"end 2: <phase":         countedIn,
	"force 2: <phase":       countedIn,
	"Conn.Stop 2: <phase":   countedIn,
	"Conn.Enter 18: <state": oneFlow,
}

// TestWrongOrders has threads whose steps are in a wrong order, or Programs in another order
// than that of the threads. They must not agree.
func TestWrongOrders(t *testing.T) {
	for _, c := range []struct{ scenario, flaw, old, new string }{
		{scenario: "await against expiry", flaw: "await waits before it pays"},
		{scenario: "await against expiry", flaw: "next reads what is paid before the wait"},
		{scenario: "await against expiry", flaw: "place does not look again"},
		{scenario: "enter against expiry", flaw: "enter stores the phase first"},
		{scenario: "a byte that is delivered against expiry by the wait for it", flaw: "an end is marked after the last look"},
		{scenario: "await against expiry", old: "<in.at <out.at <pinged", new: "<pinged <in.at <out.at"},
		{scenario: "await against expiry", old: ">$1.at <phase [ letOff($1) ]", new: "<phase [ letOff($1) ] >$1.at"},
		{scenario: "await against expiry", old: "placeAt    = >placed look", new: "placeAt    = look >placed"},
		{scenario: "enter against expiry", old: "begin >phase hasten", new: ">phase begin hasten"},
		{scenario: "enter against a ping that is not answered", old: "raise(pinged) change(begin)", new: "change(begin) raise(pinged)"},
		{scenario: "close against Examine of unread bytes", old: "<unread <lastIn <began [", new: "<lastIn <unread <began ["},
	} {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == c.scenario })
		text := strings.Replace(Programs, c.old, c.new, 1)
		if c.old != "" && text == Programs {
			t.Errorf("Programs have no %q", c.old)
		}
		x := &exploration[memory, registers]{final: func(*memory) {}}
		for _, t := range scenarios[i].threads(c.flaw) {
			x.threads = append(x.threads, &t.threadOf)
		}
		x.took = newRuns(text, false).took(x.threads)
		if x.explore(scenarios[i].memory); !strings.Contains(x.fault, "program") {
			t.Errorf("%s: %s%s: not refused, but %q", c.scenario, c.flaw, c.new, x.fault)
		}
	}
}
