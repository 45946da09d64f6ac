package main

import (
	"flag"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
)

func TestPagesHaveTheFiguresOfTheResults(t *testing.T) {
	r := loaded(t)
	for _, p := range pages {
		old, now, err := p.render(r)
		if err != nil {
			t.Error(err)
		} else if old != now {
			t.Errorf("%s differs from bench/results: go -C bench run ./figures", p.path)
		}
	}
}

var release = flag.Bool("release", false, "check that the results are of this code, of one commit, and of three turns each")

// atRelease skips a test of how the results were made. Between releases they may be older than the code.
func atRelease(t *testing.T) {
	t.Helper()
	if !*release {
		t.Skip("for a release: go -C bench test ./figures -release")
	}
}

func TestResultsAreOfOneCommit(t *testing.T) {
	atRelease(t)
	r := loaded(t)
	same := func(name string, m machine.Machine, commit string) {
		t.Helper()
		if m.Commit != commit || m.Modified {
			t.Errorf("%s is of commit %s, modified: %t; it should be of %s", name, m.Commit, m.Modified, commit)
		}
	}
	same("peers.json", r.peers.Machine, r.measured.Commit)
	same("e2e.json", r.e2e.Machine, r.measured.Commit)
	// -restarts makes these two alone, so they may be of a later commit than the others.
	same("restart.json", r.restart.Machine, r.restart.Machine.Commit)
	same("restart-own.json", r.restartOwn.Machine, r.restart.Machine.Commit)
}

func TestEachRowHasThreeTurns(t *testing.T) {
	atRelease(t)
	for _, p := range loaded(t).peers.Rows {
		if p.Median != nil && p.N < 3 {
			t.Errorf("%s/%s has %d turns", p.Workload, p.Contender, p.N)
		}
	}
}

// TestClaims: sentences of README.md, DESIGN.md and docs/operations.md that have no table.
func TestClaims(t *testing.T) {
	r := loaded(t)
	ours, err := r.row("reset-hot", "idlewheel")
	if err != nil {
		t.Fatal(err)
	}
	deadline, err := r.row("reset-hot", "SetReadDeadline")
	if err != nil {
		t.Fatal(err)
	}
	if ns := *ours.Median; ns > 1.5 {
		t.Errorf("an activity takes %.2f ns; README.md and DESIGN.md say about one", ns)
	}
	if times := *deadline.Median / *ours.Median; times < 100 {
		t.Errorf("SetReadDeadline costs %.0f times as much; README.md says more than a hundred times", times)
	}
	for _, k := range r.restart.Kinds {
		if k.Failed > 0 {
			t.Errorf("%s: %d of %d requests failed through restarts; docs/operations.md says none", k.Kind, k.Failed, k.Requests)
		}
	}
	for _, f := range r.restart.Faults {
		t.Error(f)
	}
	for _, k := range r.restart.Kinds {
		if k.Failed > 0 {
			t.Errorf("%s: %d of %d requests failed through restarts; docs/operations.md says none", k.Kind, k.Failed, k.Requests)
		}
	}
	for _, f := range r.restart.Faults {
		t.Error(f)
	}
}

func loaded(t *testing.T) *results {
	t.Helper()
	r, err := load("../results")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("..") // pages are found from bench, as by the program
	return r
}

func TestReplace(t *testing.T) {
	const begin, end = "<!-- figures: bench/figures/pages/x.md -->\n", "<!-- end of figures -->\n"
	got, err := replace("a\n"+begin+"old\n"+end+"b\n", "x", "new\n")
	if want := "a\n" + begin + "new\n" + end + "b\n"; err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := replace("a\n"+begin+"old\n", "x", "new\n"); err == nil {
		t.Error("a block without an end was replaced")
	}
}

func TestChanges(t *testing.T) {
	for _, c := range []struct {
		old, now []string
		want     int
	}{
		{nil, nil, 0},
		{[]string{"a", "b"}, []string{"a", "b"}, 0},
		{[]string{"a", "b"}, []string{"a", "c"}, 1},
		{[]string{"a"}, []string{"a", "a", "b"}, 2},
		{[]string{"a", "b", "c"}, []string{"b"}, 2},
	} {
		if got := changes(c.old, c.now); got != c.want {
			t.Errorf("%v to %v: %d changes, not %d", c.old, c.now, got, c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0.773: "0.77", 6.17: "6.2", 36.4: "36", 4999.4: "4,999", -2.85: "-2.9"} {
		if got := number(v); got != want {
			t.Errorf("%v is written %s, not %s", v, got, want)
		}
	}
}
