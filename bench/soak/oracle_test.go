package main

import (
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

var zero = time.Unix(1_000_000, 0)

func at(d time.Duration) time.Time { return zero.Add(d) }

func TestJudge(t *testing.T) {
	since := span{at(0), at(50 * ms)}
	for _, c := range []struct {
		at, late time.Duration
		fault    string
	}{
		{999 * ms, 0, "closed 1ms before"},
		{1000 * ms, 0, ""}, // the server may have seen it at 0
		{1250 * ms, 0, ""},
		{1270 * ms, 20 * ms, ""},
		{2250 * ms, 1000 * ms, ""},
		{2251 * ms, 1001 * ms, "kept for 1.001s beyond"},
	} {
		late, fault := judge(since, 1000*ms, 1200*ms, 1000*ms, at(c.at))
		if late != c.late || c.fault == "" && fault != "" || !strings.Contains(fault, c.fault) {
			t.Errorf("closed at %v: late %v, %q; want %v, %q", c.at, late, fault, c.late, c.fault)
		}
	}
	if got := (ration{bytesPerSecond: 1000, grace: 500 * ms}).paid(100); got != 600*ms {
		t.Errorf("100 bytes pay for %v", got)
	}
}

func TestPulse(t *testing.T) {
	p := newPulse(1000*ms, at(0))
	if p.excuses(at(999*ms)) || !p.excuses(at(1000*ms)) {
		t.Error("an end is excused once the limit has passed, and no earlier")
	}
	p.wrote(at(900*ms), at(950*ms))
	if p.excuses(at(1800 * ms)) {
		t.Error("a write in time did not count")
	}
	p.wrote(at(1800*ms), at(1950*ms))
	if !p.excuses(at(1951 * ms)) {
		t.Error("a write that ended after the limit counted")
	}
	p.wrote(at(1960*ms), at(1961*ms))
	if !p.excuses(at(1962 * ms)) {
		t.Error("a write after one that was late counted, though the connection may have timed out")
	}
	p.heard(at(1960 * ms))
	if p.excuses(at(2900 * ms)) {
		t.Error("an answer did not count")
	}
}

// TestExcused has a live client closed on machines that are busy, more or less.
func TestExcused(t *testing.T) {
	for _, test := range []struct {
		is   verdict
		lost time.Duration
		want verdict
	}{
		{violated, 0, violated},
		{violated, 999 * ms, violated},
		{violated, 1000 * ms, stalled},
		{violated, 5000 * ms, stalled},
		{closed, 5000 * ms, closed},
		{left, 5000 * ms, left},
		{draw, 5000 * ms, draw},
	} {
		if got := (outcome{verdict: test.is}).excused(test.lost, 1000*ms).verdict; got != test.want {
			t.Errorf("%d after stalls of %v is %d, want %d", test.is, test.lost, got, test.want)
		}
	}
}

func TestStalls(t *testing.T) {
	var s stalls
	s.add(span{at(100 * ms), at(200 * ms)})
	s.add(span{at(300 * ms), at(600 * ms)})
	for _, c := range []struct{ from, to, want time.Duration }{
		{0, 50 * ms, 0},
		{0, 1000 * ms, 400 * ms},
		{250 * ms, 400 * ms, 300 * ms},
		{700 * ms, 800 * ms, 0},
	} {
		if got := s.within(at(c.from), at(c.to)); got != c.want {
			t.Errorf("from %v to %v: %v, want %v", c.from, c.to, got, c.want)
		}
	}
	if got := (terms{time.Second, &s}).slack(at(0), at(time.Second)); got != 1800*ms {
		t.Errorf("the slack is %v, want a second and twice the stalls", got)
	}
	s.last = at(700 * ms)
	if got := s.within(at(500*ms), at(1000*ms)); got != 600*ms {
		t.Errorf("with a stall that goes on it is %v, want twice 300 ms", got)
	}
}
