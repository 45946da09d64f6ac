package main

import (
	"testing"
	"time"
)

func TestPeerLivesItsLife(t *testing.T) {
	p := life{kind: leaver, quit: 1000, stay: 64}
	idle := 4 * time.Second // of which it stays a quarter
	for _, c := range []struct {
		at            time.Duration
		quiet, leaves bool
	}{
		{999 * time.Millisecond, false, false},
		{time.Second, true, false},
		{1999 * time.Millisecond, true, false},
		{2 * time.Second, true, true},
	} {
		if q, l := p.quiet(int64(c.at)), p.leaves(int64(c.at), idle); q != c.quiet || l != c.leaves {
			t.Errorf("at %v: quiet %v, leaves %v; want %v, %v", c.at, q, l, c.quiet, c.leaves)
		}
	}
	p = life{kind: active, quit: never}
	if p.quiet(1<<62) || p.doomed() {
		t.Error("a peer that is active forever falls silent")
	}
}
