package idleprom

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// module is where all packages are.
const module = "github.com/idlewheel/idlewheel"

// goCommand runs the go command in dir, with changes of the environment.
func goCommand(t *testing.T, dir string, env []string, args ...string) (stdout string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), err
}

// foreign reports whether a package or file belongs to a module that only idleprom needs.
func foreign(path string) bool {
	return strings.Contains(path, "github.com/prometheus") || strings.Contains(path, "google.golang.org/protobuf")
}

// TestPackageGraph: a user who imports other packages of the module compiles nothing of
// Prometheus.
func TestPackageGraph(t *testing.T) {
	all, err := goCommand(t, "../..", nil, "list", "./idle/...", "./wheel", "./adapters/...")
	if err != nil {
		t.Fatal(err)
	}
	var others []string
	for pkg := range strings.Lines(all) {
		if pkg = strings.TrimSpace(pkg); pkg != module+"/adapters/idleprom" && pkg != module+"/adapters/idledebug" {
			others = append(others, pkg)
		}
	}
	if len(others) < 8 {
		t.Fatalf("there are only %q", others)
	}
	deps, err := goCommand(t, "../..", nil, append([]string{"list", "-deps"}, others...)...)
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.Lines(deps) {
		if foreign(pkg) {
			t.Errorf("%q depends on %s", others, pkg)
		}
	}
}
