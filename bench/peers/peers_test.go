package main

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// TestMain lets the test's binary take turns.
func TestMain(m *testing.M) {
	child.Main(roles())
	os.Exit(m.Run())
}

func TestWrongFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-rounds -1", "-rounds is -1"},
		{"-run (", `-run is "("`},
		{"-run nothing", `-run is "nothing"; it matches nothing`},
	} {
		var out, errs bytes.Buffer
		if status := newProgram().Invoke(context.Background(), strings.Fields(c.args), &out, &errs); status != program.Trouble || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: status %d, %s; want %q", c.args, status, &errs, c.want)
		}
	}
}

// TestLedger: what expires early, late, twice or never is counted as that.
func TestLedger(t *testing.T) {
	l := newLedger(4, time.Second)
	for i, at := range []time.Duration{900 * time.Millisecond, time.Second, 1500 * time.Millisecond} {
		l.active[i].Store(1)
		l.start = time.Now().Add(-at)
		l.expire(i)
		l.expire(i)
	}
	early, lost, late := l.judge()
	if early != 1 || lost != 1 || len(late) != 3 || l.count.Load() != 3 || !slices.IsSorted(late) {
		t.Errorf("%d early, %d lost, late %v, %d counted", early, lost, late, l.count.Load())
	}
	if l.touch(0) || !l.touch(3) {
		t.Error("what has expired can't be touched, what has not can")
	}
}

func TestReport(t *testing.T) {
	m := measure{"m", "what is measured", "ns"}
	r := newReport(&config{}, []*contest{{
		work: workload{conns: 10, measures: []measure{m}}, kind: contender.Kind{Name: "idlewheel"}, conns: 5,
		outcomes: []outcome{{Values: map[string]float64{"m": 3}, Early: 1}, {Values: map[string]float64{"m": 1}}, {Values: map[string]float64{"m": 2}, Lost: 4}},
	}})
	if f := r.Rows[0].Figures["idlewheel"]; f.Median != 2 || len(f.Turns) != 3 || f.Early != 1 || f.Lost != 4 {
		t.Errorf("%+v", f)
	}
	var out strings.Builder
	r.Table(&out)
	for _, want := range []string{"what is measured  ns    2.00!", "what is measured: idlewheel has expired 1 too early, and 4 never"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
}
