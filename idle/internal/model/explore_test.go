package model

import (
	"slices"
	"strings"
)

// An exploration runs a few threads in every order in which their steps can be
// interleaved. A step is atomic, and does one load, store or compare-and-swap
// of the shared memory, as the real code does.
type exploration[M faulty, R comparable] struct {
	threads []*threadOf[M, R]
	final   func(*M) // looks for faults once all threads are done
	seen    map[situation[M, R]]float64
	ways    float64            // how many interleavings there are
	next    []*situation[M, R] // for each step of the path, where it leads to
	path    []stepped
	fault   string    // the first one found
	trace   []stepped // how it came about
}

// A faulty is a shared memory. It says what is wrong with it, if anything is.
type faulty interface {
	comparable
	wrong() string
}

// A stepped is one step that was done.
type stepped struct{ thread, step int }

// A thread is a list of steps. A step returns the name of the one to go to, ""
// for the next one, or blocked if it can do nothing yet. The thread ends after
// its last step, or at "end".
type threadOf[M, R any] struct {
	name  string
	steps []threadStep[M, R]
	at    map[string]int
}

type threadStep[M, R any] struct {
	name string
	do   func(*M, *R) string
}

const blocked = "\x00blocked"

func (t *threadOf[M, R]) step(name string, do func(*M, *R) string) {
	if _, ok := t.at[name]; ok {
		panic("two steps of that name: " + name)
	}
	t.at[name] = len(t.steps)
	t.steps = append(t.steps, threadStep[M, R]{name, do})
}

// do adds a step that goes to the next one.
func (t *threadOf[M, R]) do(name string, do func(*M, *R)) {
	t.step(name, func(m *M, r *R) string { do(m, r); return "" })
}

// jump adds a step that goes to another one than the next, if that's so.
func (t *threadOf[M, R]) jump(name, to string, so func(*M, *R) bool) {
	t.step(name, func(m *M, r *R) string {
		if so(m, r) {
			return to
		}
		return ""
	})
}

// A situation is all that the future depends on.
type situation[M, R any] struct {
	memory M
	regs   [4]R
	pc     [4]int16
}

// explore tries all interleavings from the given memory, until there is a
// fault. It returns how many there are.
func (x *exploration[M, R]) explore(m M) float64 {
	for _, t := range x.threads {
		t.at["end"] = len(t.steps)
	}
	x.seen = map[situation[M, R]]float64{}
	x.ways = x.visit(&situation[M, R]{memory: m})
	return x.ways
}

// visit returns in how many ways the future of n can go. That is known if n was
// come across before, in whatever way: the future does not depend on it.
func (x *exploration[M, R]) visit(n *situation[M, R]) (ways float64) {
	if ways, ok := x.seen[*n]; ok {
		return ways
	}
	if len(x.path) == len(x.next) {
		x.next = append(x.next, new(situation[M, R]))
	}
	if len(x.path) > 10_000 {
		panic("a thread goes on forever: " + x.String())
	}
	next, ended := x.next[len(x.path)], true
	for i, t := range x.threads {
		if int(n.pc[i]) == len(t.steps) {
			continue
		}
		ended = false
		*next = *n
		s := &t.steps[n.pc[i]]
		label := s.do(&next.memory, &next.regs[i])
		if label == blocked {
			continue
		}
		next.pc[i]++
		if label != "" {
			to, ok := t.at[label]
			if !ok {
				panic(t.name + ": no step " + label)
			}
			next.pc[i] = int16(to)
		}
		if int(next.pc[i]) == len(t.steps) {
			next.regs[i] = *new(R) // what a thread knew at its end is no matter
		}
		x.path = append(x.path, stepped{i, int(n.pc[i])})
		if fault := next.memory.wrong(); fault != "" {
			x.found(fault)
		} else {
			ways += x.visit(next)
		}
		x.path = x.path[:len(x.path)-1]
		if x.fault != "" {
			return ways
		}
	}
	switch {
	case ended:
		ways = 1
		x.final(&n.memory)
		if fault := n.memory.wrong(); fault != "" {
			x.found(fault)
		}
	case ways == 0:
		x.found("all threads wait for each other")
	}
	x.seen[*n] = ways
	return ways
}

func (x *exploration[M, R]) found(fault string) {
	x.fault = fault
	x.trace = slices.Clone(x.path)
}

func (x *exploration[M, R]) String() string {
	lines := []string{x.fault + ":"}
	for _, d := range x.trace {
		t := x.threads[d.thread]
		lines = append(lines, t.name+": "+t.steps[d.step].name)
	}
	return strings.Join(lines, "\n\t")
}
