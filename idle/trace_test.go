//go:build idletrace

package idle

import (
	"flag"
	"reflect"
	"runtime"
	"slices"
	"strings"
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

// TestTracesOfEnterAfterUnreadInput enters a phase when unread input has counted, and a ping is unanswered.
func TestTracesOfEnterAfterUnreadInput(t *testing.T) {
	beat := Heartbeat{Interval: 300 * time.Millisecond, Timeout: 300 * time.Millisecond, Misses: 9}
	onDriver(t, Policy{ReadTimeout: time.Second, Heartbeat: beat}, nil, func(r *rig) {
		tr, p := newTracer(), &pingedProber{}
		p.probe = func() SocketState { return SocketState{Unread: true} }
		tr.watch(&p.Conn)
		r.track(&p.Conn, p)
		r.wait(1400 * time.Millisecond)
		if st := p.state.Load(); st&unanswered == 0 || !p.hasUnread() {
			t.Errorf("the state is %#x, and input is unread: %v", st, p.hasUnread())
		}
		p.Enter(r.phaseOf(Policy{IdleTimeout: time.Second}))
		p.Stop()
		tr.check(t)
	})
}

// TestFlagsOfModel compares the flags of the model with those of the code.
func TestFlagsOfModel(t *testing.T) {
	for flag, of := range map[uint32]model.Flags{
		live: model.Live, ending: model.Ending, over: model.Over, asking: model.Asking, telling: model.Telling,
		pinging: model.Pinging, unanswered: model.Unanswered, evicting: model.Evicting, dismissed: model.Dismissed, missMask: model.Misses,
	} {
		if flag != uint32(of) {
			t.Errorf("flag %#x is %#x in the model", flag, of)
		}
	}
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
