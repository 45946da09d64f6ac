//go:build proof

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// smallScale is for tests, which look at what is found and not how long it took.
func smallScale() scale {
	s := quickScale()
	s.Crowd, s.Spread, s.SpreadStale, s.OnceStale = 100, 20*time.Millisecond, 200*time.Millisecond, 200*time.Millisecond
	s.Patience = 500 * time.Millisecond
	return s
}

// fake is a contender with faults: it expires connections at once, and every tenth never. It
// doesn't leave that to a goroutine, so it's early for sure.
type fake struct {
	contender.Contender
	expired func(int)
}

var fakeKind = contender.Kind{
	Name: "fake",
	New: func(n int, timeout time.Duration, expired func(int)) (contender.Contender, error) {
		c, err := contender.All()[0].New(n, time.Hour, func(int) {})
		return &fake{c, expired}, err
	},
}

func (f *fake) Arm(i int) {
	if i%10 != 0 {
		f.expired(i)
	}
	f.Contender.Arm(i)
}

// TestEarlyAndLost puts a contender through the workload that is early, and loses every tenth.
func TestEarlyAndLost(t *testing.T) {
	s := smallScale()
	for _, w := range []workload{staleSpread(s), staleAtOnce(s)} {
		o, err := w.run(turn{kind: fakeKind, conns: s.Crowd, scale: s})
		if err != nil {
			t.Fatal(err)
		}
		if o.Early != 90 || o.Lost != 10 {
			t.Errorf("%s: early %d and lost %d, want 90 and 10", w.name, o.Early, o.Lost)
		}
		if !strings.Contains(o.Note, "early by up to") {
			t.Errorf("%s: the note is %q", w.name, o.Note)
		}
		r := newRow(&contest{work: w, kind: fakeKind, conns: s.Crowd, outcomes: []outcome{o}}, w.measures[1])
		if r.honest() {
			t.Errorf("%s: the row counts as honest", w.name)
		}
	}
}

func TestIdlewheelKeepsItsWord(t *testing.T) {
	s := smallScale()
	s.Patience = 30 * time.Second // none is lost, so that nothing waits so long
	k, _ := contender.Find(us)
	for _, w := range []workload{staleSpread(s), staleAtOnce(s)} {
		o, err := w.run(turn{kind: k, conns: s.Crowd, scale: s})
		if err != nil {
			t.Fatal(err)
		}
		if o.Early != 0 || o.Lost != 0 || len(o.Values) != len(w.measures) {
			t.Errorf("%s: %+v", w.name, o)
		}
	}
}

// TestEarlyElsewhere has a contender expire connections while others' cost is
// what is measured.
func TestEarlyElsewhere(t *testing.T) {
	s := smallScale()
	for _, w := range []workload{resetHot(), resetRandom(100), armCancel(100), memory(100), collect(100)} {
		o, err := w.run(turn{kind: fakeKind, conns: max(w.conns, 20), scale: s})
		if err != nil {
			t.Fatal(err)
		}
		if o.Early == 0 {
			t.Errorf("%s: nothing is early", w.name)
		}
	}
}
