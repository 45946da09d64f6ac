package main

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

func TestLedger(t *testing.T) {
	l, a := newLedger(), &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	e := l.enter(a)
	if r, _ := l.wait(e, ms); r != 0 {
		t.Errorf("told %v by nobody", r)
	}
	l.timedOut(a, &idle.TimeoutError{Reason: idle.ReasonIdle})
	l.timedOut(a, &idle.TimeoutError{Reason: idle.ReasonRead})
	l.timedOut(a, io.EOF)
	if r, _ := l.wait(e, time.Minute); r != idle.ReasonRead {
		t.Errorf("told %v, want the last one", r)
	}
	l.strike(a)
	l.timedOut(a, &idle.TimeoutError{Reason: idle.ReasonWrite}) // of nobody's
	if len(l.open) != 0 {
		t.Errorf("%d entries are left", len(l.open))
	}
}
