package model

import (
	"fmt"
	"slices"
	"strings"
)

// A Step is an access to a word of a connection.
type Step struct {
	Goroutine uint64
	Operation string // the program that it's a step of, or "" if it's a step of none
	Depth     int    // in how many others that is, by callbacks
	By        string // the function that makes it
	Word      string
	Wrote     bool
	Was, Is   uint64 // the value before and after
}

func (s Step) String() string {
	if !s.Wrote {
		return fmt.Sprintf("goroutine %d: %s: %s loads %s: %#x", s.Goroutine, s.Operation, s.By, s.Word, s.Was)
	}
	return fmt.Sprintf("goroutine %d: %s: %s stores %s: %#x after %#x", s.Goroutine, s.Operation, s.By, s.Word, s.Is, s.Was)
}

// A Checker checks the traces of connections.
type Checker struct {
	Made map[string]int // how often each transition was made

	runs        map[string]*machine
	transitions map[change][]string // names of the transitions that allow a change
}

type change struct {
	by      string
	was, is uint64
}

// NewChecker returns a Checker of [Programs] and [Transitions].
func NewChecker() *Checker {
	k := &Checker{Made: map[string]int{}, runs: map[string]*machine{}, transitions: map[change][]string{}}
	g := parse(Programs)
	for name := range g.programs {
		if isOperation(name) {
			k.runs[name] = newMachine(g.automaton(name))
		}
	}
	return k
}

// IsOperation reports whether there is a program for a function.
func (k *Checker) IsOperation(function string) bool { return k.runs[function] != nil }

// A run is how far a goroutine has come in an operation.
type run struct {
	operation string
	at        int // a state of the machine
	begun     int // the first step
}

// Check returns an error if the model does not allow the steps of a connection, from its
// beginning:
//   - A value that is found is the one that was stored last.
//   - A change of the state is one of [Transitions], made by a function that may make it.
//   - The steps of each goroutine are runs of operations, as in [Programs]. Only loads may be
//     outside of one.
func (k *Checker) Check(steps []Step) error {
	type thread struct {
		goroutine uint64
		depth     int
	}
	values, runs := map[string]uint64{}, map[thread]run{}
	for i, s := range steps {
		if is, known := values[s.Word]; known && is != s.Was {
			return refuse(steps[:i+1], 0, "the value is not the one that was stored last")
		}
		values[s.Word] = s.Is
		tokens := []string{"<" + s.Word}
		if s.Word == "state" && s.Was != s.Is {
			if tokens = k.allowed(change{s.By, s.Was, s.Is}); len(tokens) == 0 {
				return refuse(steps[:i+1], 0, "no transition allows it")
			}
		} else if s.Word != "state" && s.Wrote {
			tokens[0] = ">" + s.Word
		}
		if s.Operation == "" {
			if s.Wrote && s.Word != "state" {
				return refuse(steps[:i+1], 0, "it is part of no operation")
			}
			continue
		}
		of := thread{s.Goroutine, s.Depth}
		r, m := runs[of], k.runs[s.Operation]
		if r.operation != s.Operation {
			if r.operation != "" && !k.runs[r.operation].mayEnd(r.at) {
				return refuse(steps[:i+1], r.begun, r.operation+" is not over")
			}
			r = run{operation: s.Operation, begun: i}
		}
		at, ok := m.step(r.at, tokens)
		if !ok {
			return refuse(steps[:i+1], r.begun, "the program has no such step; it has "+strings.Join(m.expected(r.at), " "))
		}
		r.at = at
		runs[of] = r
	}
	for _, r := range runs {
		if !k.runs[r.operation].mayEnd(r.at) {
			return refuse(steps, r.begun, r.operation+" has not ended")
		}
	}
	return nil
}

// allowed returns the tokens of the transitions that allow a change.
func (k *Checker) allowed(c change) []string {
	names, known := k.transitions[c]
	if !known {
		for _, t := range Transitions {
			if slices.Contains(t.By, c.by) && t.Allows(Flags(c.was), Flags(c.is)) {
				names = append(names, ">state."+t.Name)
			}
		}
		k.transitions[c] = names
	}
	for _, name := range names {
		k.Made[strings.TrimPrefix(name, ">state.")]++
	}
	return names
}

// refuse returns the error for the last of some steps, with those of its goroutine.
func refuse(steps []Step, from int, why string) error {
	last := steps[len(steps)-1]
	var text strings.Builder
	fmt.Fprintf(&text, "refused: %s:", why)
	shown := steps[max(from, len(steps)-200):]
	for _, s := range shown {
		if s.Goroutine == last.Goroutine && s.Operation == last.Operation || s.Word == last.Word && s.Wrote {
			fmt.Fprintf(&text, "\n\t%v", s)
		}
	}
	return fmt.Errorf("%s", text.String())
}

// A machine is an automaton with one state at a time, which stands for a set of states. Such
// states are made when they are first reached.
type machine struct {
	of   *automaton
	sets [][]int
	ids  map[string]int
	next []map[string]int // for each set, where tokens lead to; -1 if to none
}

func newMachine(a *automaton) *machine {
	m := &machine{of: a, ids: map[string]int{}}
	m.id(a.closure([]int{0}))
	return m
}

func (m *machine) id(set []int) int {
	key := fmt.Sprint(set)
	id, ok := m.ids[key]
	if !ok {
		id = len(m.sets)
		m.ids[key] = id
		m.sets = append(m.sets, set)
		m.next = append(m.next, map[string]int{})
	}
	return id
}

// step returns where one of some tokens leads to.
func (m *machine) step(at int, tokens []string) (to int, ok bool) {
	key := tokens[0]
	if len(tokens) > 1 {
		key = strings.Join(tokens, " ")
	}
	to, known := m.next[at][key]
	if !known {
		var set []int
		for _, s := range m.sets[at] {
			for _, t := range tokens {
				set = append(set, m.of.next[s][t]...)
			}
		}
		if to = -1; len(set) > 0 {
			to = m.id(m.of.closure(set))
		}
		m.next[at][key] = to
	}
	return to, to >= 0
}

// mayEnd reports whether a run may be over.
func (m *machine) mayEnd(at int) bool { return at == 0 || slices.Contains(m.sets[at], m.of.accept) }

// expected returns the tokens that lead on.
func (m *machine) expected(at int) (tokens []string) {
	for _, s := range m.sets[at] {
		for t := range m.of.next[s] {
			tokens = append(tokens, t)
		}
	}
	slices.Sort(tokens)
	return slices.Compact(tokens)
}
