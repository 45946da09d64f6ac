//go:build proof

package observability

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestRules(t *testing.T) {
	known := scrape(t, first(newRegistry(t)))
	runbook, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules(t) {
		if !strings.Contains(string(runbook), "\n### "+r.Alert+"\n") || !strings.HasSuffix(r.Annotations["runbook_url"], "docs/operations.md#"+strings.ToLower(r.Alert)) {
			t.Errorf("%s has no section in docs/operations.md, or its runbook_url (%q) leads elsewhere", r.Alert, r.Annotations["runbook_url"])
		}
		if slices.Contains([]string{"IdlewheelDescriptors", "IdlewheelTargetDown"}, r.Alert) {
			continue // of the process, and of Prometheus
		}
		ofFleet := strings.HasPrefix(r.Alert, "Fleet") // its test looks up the metrics
		if !ofFleet && !strings.HasPrefix(r.Alert, "Idlewheel") || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s%s lacks a name, a summary or a description", r.Alert, r.Record)
		}
		if s := r.Labels["severity"]; s != "warning" && s != "critical" {
			t.Errorf("%s has the severity %q", r.Alert, s)
		}
		if !ofFleet {
			check(t, r.Alert, r.Expr, known)
		}
	}
}

// first returns the first of two values.
func first[A, B any](a A, _ B) A { return a }
