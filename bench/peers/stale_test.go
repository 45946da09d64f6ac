package main

import (
	"testing"
	"time"
)

func TestLedger(t *testing.T) {
	l := newLedger(3, time.Hour)
	for i := range 3 {
		l.touch(i)
	}
	l.expire(0)
	l.expire(0)
	l.active[1].Store(-int64(2 * time.Hour))
	l.expire(1)
	v := l.judge()
	if v.early != 1 || v.lost != 1 || len(v.late) != 2 || v.at(1) < time.Hour || v.at(0) > -59*time.Minute {
		t.Errorf("%+v", v)
	}
	if l.count.Load() != 2 {
		t.Errorf("%d expired, want 2", l.count.Load())
	}
	if l.touch(0) || !l.touch(2) {
		t.Error("what has expired is not active any more, and what has not is")
	}
}
