//go:build proof

package main

import (
	"testing"
)

func TestResultsAreOfThisCode(t *testing.T) {
	atRelease(t)
	r := loaded(t)
	s, err := stale(t.Context(), r.measured)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d declarations have changed since commit %s", s.Changed, s.Of, r.measured.Commit)
	if s.tooMany() {
		t.Errorf("%d of %d measured declarations have changed since the results were made, more than a tenth: go -C bench run ./figures -remake", s.Changed, s.Of)
	}
}
