//go:build idletrace

package idle

import (
	"bytes"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/idlewheel/idlewheel/idle/internal/model"
	"github.com/idlewheel/idlewheel/idle/internal/words"
)

// This file is part of tests only. It isn't one itself, because those of internal/traces use it, too.

// A tracer records what is done to connections.
type tracer struct {
	checker *model.Checker
	places  map[*words.Stack]place

	mu   sync.Mutex
	logs map[*Conn]*words.Log

	conns, steps int
}

func newTracer() *tracer {
	return &tracer{checker: model.NewChecker(), places: map[*words.Stack]place{}, logs: map[*Conn]*words.Log{}}
}

// wordsOf returns the words of a connection, with their names in the model.
func wordsOf(c *Conn) (names []string, at []unsafe.Pointer) {
	for _, w := range []struct {
		name string
		at   unsafe.Pointer
	}{
		{"in.at", unsafe.Pointer(&c.in.at)}, {"in.paid", unsafe.Pointer(&c.in.paid)},
		{"out.at", unsafe.Pointer(&c.out.at)}, {"out.paid", unsafe.Pointer(&c.out.paid)},
		{"lastIn", unsafe.Pointer(&c.lastIn)}, {"lastOut", unsafe.Pointer(&c.lastOut)}, {"used", unsafe.Pointer(&c.used)},
		{"unread", unsafe.Pointer(&c.unread)}, {"beat", unsafe.Pointer(&c.beat)}, {"pinged", unsafe.Pointer(&c.pinged)},
		{"born", unsafe.Pointer(&c.born)}, {"began", unsafe.Pointer(&c.began)}, {"told", unsafe.Pointer(&c.told)},
		{"placed", unsafe.Pointer(&c.placed)}, {"state", unsafe.Pointer(&c.state)}, {"phase", unsafe.Pointer(&c.phase)},
	} {
		names, at = append(names, w.name), append(at, w.at)
	}
	return names, at
}

// TraceAll records every nth connection, and checks its steps. It calls run until there are so many
// steps. Before run returns, it has to stop its servers.
func TraceAll(t *testing.T, steps int, n uint64, run func()) {
	tr, begun := newTracer(), time.Now()
	var started atomic.Uint64
	unwatched := func(at unsafe.Pointer, by *words.Stack) {
		var c *Conn
		if strings.HasSuffix(by.Frames[0].Function, "(*Shard).Track") && started.Add(1)%n == 0 {
			tr.watch((*Conn)(unsafe.Add(at, -int(unsafe.Offsetof(c.state)))))
		}
	}
	words.Unwatched.Store(&unwatched)
	defer words.Unwatched.Store(nil)
	for tr.steps < steps && !t.Failed() {
		run()
		for serversRun() {
			time.Sleep(time.Millisecond)
		}
		tr.check(t)
	}
	tr.report(t)
	t.Logf("%v", time.Since(begun))
}

// ofServers matches the stacks of goroutines that may use connections.
var ofServers = regexp.MustCompile(`idlewheel/(adapters/|idle\.\(|.*\.serve)|net/http\.\(|fasthttp\.\(|gnet/v2\.\(`)

// serversRun reports whether another goroutine than the caller's may use connections.
func serversRun() bool {
	stacks := make([]byte, 1<<20)
	_, others, _ := bytes.Cut(stacks[:runtime.Stack(stacks, true)], []byte("\n\n"))
	return ofServers.Match(others)
}

// watch records what is done to c, from now on if it's new.
func (tr *tracer) watch(c *Conn) {
	_, at := wordsOf(c)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.logs[c] == nil {
		tr.logs[c] = words.Watch(at...)
	}
}

// check checks all that was recorded. Nobody uses the connections any more.
func (tr *tracer) check(t *testing.T) {
	names, _ := wordsOf(&Conn{})
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, l := range tr.logs {
		var steps []model.Step
		for _, a := range l.Close() {
			at := tr.place(a.Stack)
			steps = append(steps, model.Step{
				Goroutine: a.Goroutine, Depth: at.depth, Operation: at.operation, By: at.by,
				Word: names[a.Word], Wrote: a.Wrote, Was: a.Was, Is: a.Is,
			})
		}
		tr.conns++
		tr.steps += len(steps)
		if err := tr.checker.Check(steps); err != nil && !t.Failed() {
			t.Error(err)
		}
	}
	clear(tr.logs)
}

// report says what was checked.
func (tr *tracer) report(t *testing.T) {
	t.Logf("%d steps of %d connections", tr.steps, tr.conns)
	var never []string
	for _, tn := range model.Transitions {
		if tr.checker.Made[tn.Name] == 0 {
			never = append(never, tn.Name)
		}
	}
	t.Logf("never made: %v", never)
}

// A place is where a step is made: the operation that it's a step of, in how many others that is, and
// the function that makes the step.
type place struct {
	operation, by string
	depth         int
}

var (
	closure = regexp.MustCompile(`(\.(func|deferwrap|gowrap)\d+|-range\d+).*$`)

	// aside are functions that only look at a connection, or that no program describes. They may
	// be called in an operation, and are no steps of it.
	aside = regexp.MustCompile(`^(Shard\.report|endRecord\.describe|Capacity\.wants|room\.(hasPlace|evict|pick|look|lower)|ends\..*)$`)

	// within are functions in which others begin: callbacks, and what follows them.
	within = regexp.MustCompile(`^Shard\.(call|expire)(\.|$)`)
)

// place returns the place of a stack.
func (tr *tracer) place(s *words.Stack) (p place) {
	if p, known := tr.places[s]; known {
		return p
	}
	defer func() { tr.places[s] = p }()
	isAside, outside := false, false
	for _, f := range s.Frames {
		name, ours := functionOf(f)
		outside = outside || strings.HasSuffix(f.File, "_test.go") || strings.Contains(f.Function, "/adapters/") || within.MatchString(name)
		switch {
		case !ours:
			continue
		case outside && tr.checker.IsOperation(name):
			p.depth++
			continue
		case outside:
			continue
		}
		base := closure.ReplaceAllString(name, "")
		if p.by == "" && !strings.HasPrefix(name, "state.") {
			p.by = base
		}
		isAside = isAside || aside.MatchString(base)
		if tr.checker.IsOperation(name) {
			if p.operation = name; isAside {
				p.operation = ""
			}
		}
	}
	return p
}

// functionOf returns the name of a function of this package without the path: Shard.ping.func1.
func functionOf(f runtime.Frame) (name string, ours bool) {
	name, ours = strings.CutPrefix(f.Function, "github.com/idlewheel/idlewheel/idle.")
	if ours && !strings.Contains(name, ".") {
		name = "idle." + name
	}
	return strings.NewReplacer("(*", "", ")", "").Replace(name), ours
}
