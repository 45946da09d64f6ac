// Package observability tests the alert rules, the dashboard and the configuration in this directory.
package observability

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idlewheel/idlewheel/adapters/idleprom"
	"github.com/idlewheel/idlewheel/idle"
)

// TestPromtool: Prometheus accepts the files and the queries of the dashboard, and alerts fire as
// alerts_test.yaml says.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool, which comes with Prometheus: go install github.com/prometheus/prometheus/cmd/promtool@v0.316.0")
	}
	var rules []map[string]string // which promtool checks; JSON is YAML
	for i, q := range queries(t) {
		rules = append(rules, map[string]string{"record": fmt.Sprint("dashboard:", i), "expr": strings.ReplaceAll(q, "$__rate_interval", "5m")})
	}
	panels := filepath.Join(t.TempDir(), "panels.yaml")
	text, _ := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err := os.WriteFile(panels, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "config", "prometheus.yaml"},
		{"check", "rules", "--lint-fatal", "alerts.yaml", panels},
		{"test", "rules", "alerts_test.yaml"},
	} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestRules: each rule says what an operator needs, and has a section in the runbook and a test.
func TestRules(t *testing.T) {
	runbook, tests := read(t, "../../docs/operations.md"), read(t, "alerts_test.yaml")
	rules := strings.Split(read(t, "alerts.yaml"), "- alert: ")[1:]
	if len(rules) < 20 {
		t.Errorf("found %d rules", len(rules))
	}
	for _, rule := range rules {
		name, _, _ := strings.Cut(rule, "\n")
		for want, in := range map[string]string{
			"severity: ": rule, "summary: ": rule, "description: ": rule, "docs/operations.md#" + strings.ToLower(name) + "\n": rule,
			"\n### " + name + "\n": runbook, `alertname="` + name + `"`: tests,
		} {
			if !strings.Contains(in, want) {
				t.Errorf("%s: there is no %q", name, want)
			}
		}
	}
}

// TestNames: rules and queries name metrics that idleprom has, and the dashboard shows each of them.
func TestNames(t *testing.T) {
	collector, err := idleprom.New(map[string]*idle.Tracker{"test": new(idle.Tracker)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	descs, known := make(chan *prometheus.Desc, 1000), map[string]bool{}
	collector.Describe(descs)
	close(descs)
	name := regexp.MustCompile(`\bidlewheel_\w+`)
	for d := range descs {
		known[name.FindString(d.String())] = true
	}
	names := func(text string) map[string]bool {
		all := map[string]bool{}
		for _, name := range name.FindAllString(text, -1) {
			if base := regexp.MustCompile("_(bucket|count|sum)$").ReplaceAllString(name, ""); known[base] {
				name = base
			}
			all[name] = true
			if !known[name] {
				t.Errorf("there is no %s", name)
			}
		}
		return all
	}
	names(read(t, "alerts.yaml"))
	shown := names(strings.Join(queries(t), "\n"))
	for name := range known {
		if !shown[name] {
			t.Errorf("the dashboard doesn't show %s", name)
		}
	}
	for _, query := range queries(t) {
		if strings.Count(query, "{") != strings.Count(query, `{tracker=~"$tracker", instance=~"$node"`) {
			t.Errorf("the dashboard's variables aren't used in %s", query)
		}
	}
}

// TestPort: Prometheus scrapes examples/http where it serves its metrics.
func TestPort(t *testing.T) {
	for _, file := range []string{"prometheus.yaml", "../http/main.go"} {
		if !strings.Contains(read(t, file), `"127.0.0.1:6060"`) {
			t.Errorf("%s doesn't have 127.0.0.1:6060", file)
		}
	}
}

// queries returns those of the dashboard.
func queries(t *testing.T) (all []string) {
	t.Helper()
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(read(t, "dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
