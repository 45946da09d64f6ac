package machine

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestTake(t *testing.T) {
	m := Take(t.Context(), "example.com/none")
	if m.Cores < 1 || m.OS != runtime.GOOS || m.Go != runtime.Version() || m.Date == "" || m.Commit == "" {
		t.Errorf("got %+v", m)
	}
	if got := m.Modules["example.com/none"]; got != Unknown {
		t.Errorf("the version of what is not in the program is %q", got)
	}
}

func TestFacts(t *testing.T) {
	m := Machine{
		CPU: "abacus", Cores: 3, OS: "plan9", Arch: "wood", Release: "4", Go: "go1", Commit: "abc", Modified: true,
		Modules: map[string]string{"z": "v2", "a": "v1"},
	}
	got := fmt.Sprint(m.Facts("servers"))
	for _, want := range []string{"3 cores of abacus", "plan9/wood 4, go1", "commit abc, with changes", "[servers a v1, z v2]"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
}
