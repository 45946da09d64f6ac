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

// TestTracesOfEnterBesideALateWait enters a phase when another goroutine has found that its wait
// begins beyond the limit of all waits, and hasn't said so yet. In the new phase the wait isn't
// overdue.
func TestTracesOfEnterBesideALateWait(t *testing.T) {
	p := Policy{ReadTotal: time.Second, MinWriteRate: Rate{1000, time.Second}}
	for name, test := range map[string]struct{ pause, await func(*Conn) }{
		"read":  {(*Conn).PauseRead, (*Conn).AwaitRead},
		"write": {(*Conn).PauseWrite, (*Conn).AwaitWrite},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, p, nil, true, func(r *rig) {
				tr, p := newTracer(), &peer{}
				tr.watch(&p.Conn)
				next := r.phaseOf(Policy{ReadTotal: time.Hour, MinWriteRate: Rate{1, time.Hour}})
				names, _ := wordsOf(&p.Conn)
				late, entered := false, false
				tr.logs[&p.Conn].Before = func(word int, by *words.Stack) {
					says := slices.ContainsFunc(by.Frames, func(f runtime.Frame) bool {
						name, _ := functionOf(f)
						return name == "Conn.startWait"
					})
					if late && says && !entered && names[word] == "state" {
						entered = true
						p.Enter(next)
					}
				}
				r.track(&p.Conn, p)
				r.do(func() { // so no pass ends the connection meanwhile
					p.PauseRead()
					test.await(&p.Conn)
					time.Sleep(3 * time.Second)
					test.pause(&p.Conn)
					late = true
					test.await(&p.Conn)
					if st := p.state.Load(); !entered || st&(overdueIn|overdueOut) != 0 {
						t.Errorf("entered: %v, the state is %#x", entered, st)
					}
					p.Stop()
				})
				tr.check(t)
			})
		})
	}
}

// TestTracesOfAKeepBesideResume resumes a wait when OnTimeout has kept the connection and has found
// no wait to restart. The wait starts over all the same.
func TestTracesOfAKeepBesideResume(t *testing.T) {
	for _, beside := range []bool{false, true} {
		onDriver(t, Policy{ReadTimeout: time.Second}, nil, func(r *rig) {
			var w Wait
			tr, k := newTracer(), &keeper{}
			k.keep = func(*TimeoutError) bool { k.SuspendRead(&w); return true }
			tr.watch(&k.Conn)
			names, _ := wordsOf(&k.Conn)
			resumed := false
			tr.logs[&k.Conn].Before = func(word int, by *words.Stack) {
				restarts := slices.ContainsFunc(by.Frames, func(f runtime.Frame) bool {
					name, _ := functionOf(f)
					return name == "entry.restartWait"
				})
				if beside && !resumed && restarts && names[word] == "state" {
					resumed = true
					k.ResumeRead(&w)
				}
			}
			r.track(&k.Conn, k)
			r.wait(time.Second + r.late())
			if resumed != beside {
				t.Fatalf("resumed: %v", resumed)
			}
			k.ResumeRead(&w)
			r.wait(time.Second - 2*r.late())
			if st := k.state.Load(); len(k.asked) != 1 || st&(keptIn|keptOut) != 0 {
				t.Errorf("asked %d times, the state is %#x", len(k.asked), st)
			}
			k.Stop()
			tr.check(t)
		})
	}
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
		granted: model.Granted, overdueIn: model.OverdueIn, overdueOut: model.OverdueOut, over: model.Over,
		telling: model.Telling, ending: model.Ending, pingOut: model.PingOut, pongIn: model.PongIn,
		evicting: model.Evicting, entering: model.Entering, dismissed: model.Dismissed,
		keptIn: model.KeptIn, keptOut: model.KeptOut,
		missMask: model.Misses,
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
