package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/idle"
)

func TestWrongFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-duration 1s", "-duration is 1s"},
		{"-conns 1", "-conns is 1"},
	} {
		var out, errs bytes.Buffer
		if status := newProgram().Invoke(t.Context(), strings.Fields(c.args), &out, &errs); status != program.Trouble || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: status %d, %s; want %q", c.args, status, &errs, c.want)
		}
	}
}

// TestTally: a violation makes the soak fail, whatever else there is.
func TestTally(t *testing.T) {
	a := &target{Closed: map[string]int{}}
	for _, o := range []outcome{{}, {reason: idle.ReasonIdle, late: time.Millisecond}, {unsure: true}} {
		a.add(o)
	}
	r := &report{Servers: map[string]*target{"net": a}}
	if a.Left != 1 || a.Closed[idle.ReasonIdle.String()] != 1 || a.Unsure != 1 || r.Status() != program.Pass {
		t.Errorf("%+v, status %d", a, r.Status())
	}
	a.add(outcome{fault: "x"})
	if a.Violated != 1 || len(a.First) != 1 || r.Status() != program.Fail {
		t.Errorf("%+v, status %d", a, r.Status())
	}
}
