//go:build idletrace

package idle

import (
	"flag"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/idlewheel/idlewheel/idle/internal/model"
	"github.com/idlewheel/idlewheel/idle/internal/words"
)

var traced = flag.Int("traced", 100_000, "how many steps TestTraces checks")

// TestTraces records what the stress test does to the words of connections, and checks whether
// the model allows it. The long form:
//
//	go test -tags idletrace ./idle -run Traces -v -timeout 1h -args -traced 10000000
func TestTraces(t *testing.T) {
	seed, begun := uint64(time.Now().UnixNano()), time.Now()
	t.Logf("seed %d", seed)
	tr := newTracer()
	for round := uint64(0); tr.steps < *traced && !t.Failed(); round++ {
		s := newStress(t, seed+round)
		s.made, s.unread = tr.watch, true
		s.run(5_000)
		tr.check(t)
	}
	tr.report(t)
	t.Logf("%v", time.Since(begun))
}

// TestTracesOfSimulation is the same for worlds of the simulation, which do more.
func TestTracesOfSimulation(t *testing.T) {
	tr := newTracer()
	for seed := int64(0); tr.steps < *traced && !t.Failed(); seed++ {
		faults, _ := playWorld(t, traceOf(seed, 1000), func(t *testing.T) *world {
			w := newWorld(t, seed, nil)
			w.made = tr.watch
			return w
		})
		for _, f := range faults {
			t.Error(f.text)
		}
		tr.check(t)
	}
	tr.report(t)
}

// TestTracesOfALateByte delivers a byte after the last look of a pass, before the pass ends the
// connection. That's a few instructions, so other traces hardly ever have it.
func TestTracesOfALateByte(t *testing.T) {
	onDriver(t, Policy{ReadTimeout: time.Second}, nil, func(r *rig) {
		tr, p := newTracer(), &peer{}
		tr.watch(&p.Conn)
		names, _ := wordsOf(&p.Conn)
		delivered := false
		tr.logs[&p.Conn].Before = func(word int, by *words.Stack) {
			ends := slices.ContainsFunc(by.Frames, func(f runtime.Frame) bool {
				name, _ := functionOf(f)
				return name == "Shard.end"
			})
			if !delivered && ends && names[word] == "state" {
				delivered = true
				p.Received(1)
				p.PauseRead()
				delivered = p.Deliver()
			}
		}
		r.track(&p.Conn, p)
		r.wait(2 * time.Second)
		if !delivered {
			t.Error("not delivered")
		}
		p.Stop()
		tr.check(t)
	})
}

// A pingedProber is pinged and never answers, and always has unread input.
type pingedProber struct{ prober }

func (*pingedProber) Ping() error { return nil }

// TestTracesOfEnterAfterAGrant enters a phase when unread input has counted as activity, and a
// ping is unanswered.
func TestTracesOfEnterAfterAGrant(t *testing.T) {
	beat := Heartbeat{Interval: 300 * time.Millisecond, Timeout: 300 * time.Millisecond, Misses: 9}
	onDriver(t, Policy{IdleTimeout: time.Second, Heartbeat: beat}, nil, func(r *rig) {
		tr, p := newTracer(), &pingedProber{}
		p.probe = func() SocketState { return SocketState{Unread: true} }
		tr.watch(&p.Conn)
		r.track(&p.Conn, p)
		r.wait(1200 * time.Millisecond)
		if st := p.state.Load(); st&(granted|unanswered) != granted|unanswered {
			t.Errorf("the state is %#x", st)
		}
		p.Enter(r.phaseOf(Policy{IdleTimeout: time.Second}))
		p.Stop()
		tr.check(t)
	})
}

// TestFlagsOfModel compares the flags of the model with those of the code.
func TestFlagsOfModel(t *testing.T) {
	for flag, of := range map[uint32]model.Flags{
		live: model.Live, expired: model.Expired, asking: model.Asking, pinging: model.Pinging, unanswered: model.Unanswered,
		granted: model.Granted, draining: model.Draining, overdueIn: model.OverdueIn, overdueOut: model.OverdueOut, over: model.Over,
		listed: model.Listed, telling: model.Telling, ending: model.Ending, pingOut: model.PingOut, pongIn: model.PongIn,
		evicting: model.Evicting, handshaking: model.Handshaking, entering: model.Entering, rekeyed: model.Rekeyed, dismissed: model.Dismissed,
		missMask: model.Misses,
	} {
		if flag != uint32(of) {
			t.Errorf("flag %#x is %#x in the model", flag, of)
		}
	}
}

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
		{"in.stamp", unsafe.Pointer(&c.in.stamp)}, {"in.wait", unsafe.Pointer(&c.in.wait)}, {"in.paid", unsafe.Pointer(&c.in.paid)},
		{"out.stamp", unsafe.Pointer(&c.out.stamp)}, {"out.wait", unsafe.Pointer(&c.out.wait)}, {"out.paid", unsafe.Pointer(&c.out.paid)},
		{"born", unsafe.Pointer(&c.born)}, {"began", unsafe.Pointer(&c.began)}, {"beat", unsafe.Pointer(&c.beat)},
		{"pinged", unsafe.Pointer(&c.pinged)}, {"pingSent", unsafe.Pointer(&c.pingSent)},
		{"placed", unsafe.Pointer(&c.placed)}, {"state", unsafe.Pointer(&c.state)}, {"phase", unsafe.Pointer(&c.phase)},
	} {
		names, at = append(names, w.name), append(at, w.at)
	}
	return names, at
}

// TestAllWordsAreTraced: a word of a Conn that isn't in wordsOf, or an atomic that isn't of package words,
// would be changed without a trace.
func TestAllWordsAreTraced(t *testing.T) {
	var c Conn
	_, at := wordsOf(&c)
	var visit func(reflect.Type, string, uintptr)
	visit = func(typ reflect.Type, name string, offset uintptr) {
		switch path := typ.PkgPath(); {
		case path == "sync/atomic":
			t.Errorf("%s is atomic, but not of package words", name)
		case strings.HasSuffix(path, "idle/internal/words") || typ.ConvertibleTo(reflect.TypeFor[words.Uint32]()): // as clock.AtomicStamp
			if !slices.Contains(at, unsafe.Add(unsafe.Pointer(&c), offset)) {
				t.Errorf("%s isn't in wordsOf", name)
			}
		case typ.Kind() == reflect.Struct:
			for i := range typ.NumField() {
				f := typ.Field(i)
				visit(f.Type, name+"."+f.Name, offset+f.Offset)
			}
		}
	}
	visit(reflect.TypeFor[Conn](), "Conn", 0)
}

// TraceAll calls run until what it does with connections has made enough steps, and checks those.
// It's for package idle_test. When run returns, nobody may use the connections any more.
func TraceAll(t *testing.T, run func()) {
	tr, begun := newTracer(), time.Now()
	unwatched := func(at unsafe.Pointer, by *words.Stack) {
		var c *Conn
		if slices.ContainsFunc(by.Frames[:2], func(f runtime.Frame) bool { return strings.HasSuffix(f.Function, "(*state).start") }) {
			tr.watch((*Conn)(unsafe.Add(at, -int(unsafe.Offsetof(c.state)))))
		}
	}
	words.Unwatched.Store(&unwatched)
	defer words.Unwatched.Store(nil)
	for tr.steps < *traced && !t.Failed() {
		run()
		tr.check(t)
	}
	tr.report(t)
	t.Logf("%v", time.Since(begun))
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
	closure = regexp.MustCompile(`\.(func\d+|deferwrap\d+|gowrap\d+).*$`)

	// aside are functions that only look at a connection, or that no program describes. They may
	// be called in an operation, and are no steps of it.
	aside = regexp.MustCompile(`^(Shard\.part|Shard\.leave|Shard\.admit|entry\.endRecord|Shard\.established|Conn\.Rekey|Capacity\.wants|(room|keys|Operation|work|ends)\..*)$`)

	// within are functions in which others begin: callbacks, and what follows them.
	within = regexp.MustCompile(`^Shard\.(call|expire|reap)(\.|$)`)
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
