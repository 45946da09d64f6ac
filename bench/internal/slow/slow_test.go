package slow_test

import (
	"slices"
	"testing"

	"github.com/idlewheel/idlewheel/bench/internal/slow"
)

// TestNames: each case has a name of its own, and says what it does, what should end it, and who
// does the same honestly.
func TestNames(t *testing.T) {
	controls := map[string]bool{}
	for _, c := range slow.Cases() {
		if c.Control() {
			controls[c.Name] = true
		}
	}
	seen, alone := map[string]bool{}, []string{}
	for _, c := range slow.Cases() {
		if seen[c.Name] || c.Does == "" || c.Protocol == "" || c.Control() != (c.Reason != "") {
			t.Errorf("%+v: twice, or incomplete", c)
		}
		seen[c.Name] = true
		if c.Beside != "" && !controls[c.Beside] {
			t.Errorf("%s: there's no control %s", c.Name, c.Beside)
		}
		if c.Beside == "" && !c.Control() {
			alone = append(alone, c.Name)
		}
	}
	// Nobody does these for a good reason.
	want := []string{"tcp-half-close", "tls-half-close", "h1-blank-lines", "h1-idle-blank-lines", "h1-connect", "h1-upgrade", "h1-half-close", "h2-goaway"}
	if !slices.Equal(alone, want) {
		t.Errorf("without a control: %q, want %q", alone, want)
	}
	if cases := len(seen) - len(controls); cases < 60 || len(controls) < 20 {
		t.Errorf("%d cases and %d controls", cases, len(controls))
	}
}
