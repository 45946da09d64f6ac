package idleprom

import (
	"os/exec"
	"strings"
	"testing"
)

// TestPackageGraph: a user who imports other packages of the module compiles nothing of Prometheus, and
// downloads nothing of it: go mod tidy also downloads what the tests of imported packages import.
func TestPackageGraph(t *testing.T) {
	list := func(args ...string) []string {
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
		cmd.Dir = "../.."
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", cmd, err)
		}
		return strings.Fields(string(out))
	}
	var others []string
	for _, pkg := range list("./idle/...", "./wheel", "./adapters/...") {
		if !strings.HasSuffix(pkg, "/adapters/idleprom") && !strings.HasSuffix(pkg, "/adapters/idledebug") {
			others = append(others, pkg)
		}
	}
	if len(others) < 8 {
		t.Fatalf("there are only %q", others)
	}
	for _, pkg := range list(append([]string{"-deps", "-test"}, others...)...) {
		if strings.Contains(pkg, "github.com/prometheus") || strings.Contains(pkg, "google.golang.org/protobuf") {
			t.Errorf("%q depend on %s", others, pkg)
		}
	}
}
