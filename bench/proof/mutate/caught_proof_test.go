//go:build proof

// Package mutate plants deliberate faults in the code, one at a time, and fails if the tests
// don't catch one. All of them take some hours, those of a package or a single one less:
//
//	go -C bench test -tags proof ./proof/mutate -run Caught -v -timeout 9h -args -fault .
//	go -C bench test -tags proof ./proof/mutate -run Caught -v -args -fault 'idlehttp/.*408'
//
// The work tree isn't changed: the faulty copy of a file is passed to the go command as an
// overlay. Run it on a machine that isn't busy otherwise, because a test that fails by being
// slow counts as one that catches the fault.
//
// The faults of a package are in its testdata/faults.txt:
//
//	tests: ./adapters/internal/httpconn ./adapters/idlehttp
//
//	answer.go Conn.status: a handler that takes too long is answered with 408
//	- return http.StatusServiceUnavailable
//	+ return http.StatusRequestTimeout
//
//	tls.go takeApart: ...
//	- ...
//	survives: equivalent, because ...
//
// Paragraphs are separated by blank lines. The first line of a fault names the file, the
// declaration in it, and what is wrong. The code that the lines with a - have is replaced by
// that of the lines with a +. It has to occur exactly once in the declaration; white space and
// comments don't matter. Lines with a + that follow none with a - are inserted where the body
// of the function begins. A fault that no test catches has a line "survives:" with the reason.
// A line "tests:" names the packages whose tests are to catch the faults after it, or this
// one, and flags for go test.
package mutate

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var chosen = flag.String("fault", "", "plant the faults whose name matches this regular expression; . for all")

// TestCaught runs the tests of each fault.
func TestCaught(t *testing.T) {
	if *chosen == "" {
		t.Skip("it takes hours; say which faults, by -args -fault")
	}
	all, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	choose, err := regexp.Compile(*chosen)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if !choose.MatchString(f.name()) {
			continue
		}
		t.Run(f.name(), func(t *testing.T) {
			by := f.caught(t)
			if by != "" && f.survives != "" { // a test may have failed by chance, on a busy machine
				by = f.caught(t)
			}
			switch {
			case by == "" && f.survives == "":
				t.Errorf("%s: no test catches it", f.where)
			case by != "" && f.survives != "":
				t.Errorf("%s says that it survives, but %s catches it", f.where, by)
			default:
				t.Log(by + f.survives)
			}
		})
	}
}

// caught returns which test fails with the fault, or else what happens; nothing if all pass.
func (f *fault) caught(t *testing.T) (by string) {
	target, err := filepath.Abs(filepath.Join(root, f.dir, f.file))
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(target)
	if err != nil {
		t.Fatal(err)
	}
	if src, err = apply(f, src); err != nil {
		t.Fatal(err)
	}
	faulty := filepath.Join(t.TempDir(), "faulty.go")
	overlay := faulty + ".json"
	text, _ := json.Marshal(map[string]any{"Replace": map[string]string{target: faulty}})
	if err := os.WriteFile(faulty, src, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var flags []string
	for _, word := range f.tests {
		if strings.HasPrefix(word, "-") {
			flags = append(flags, word)
		}
	}
	for _, pkg := range f.tests {
		if strings.HasPrefix(pkg, "-") {
			continue
		}
		module, pkg := moduleOf(pkg)
		args := append([]string{"test", "-tags=proof", "-short", "-failfast", "-vet=off", "-count=1", "-timeout=1m", "-overlay=" + overlay, pkg}, flags...)
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = module
		if out, err := cmd.CombinedOutput(); err != nil {
			if strings.Contains(string(out), "[build failed]") || strings.Contains(string(out), "[setup failed]") {
				t.Fatalf("%s: it does not compile:\n%s", f.where, out)
			}
			if m := regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`).FindSubmatch(out); m != nil {
				return "caught by " + string(m[1])
			}
			return "caught by a crash or a hang"
		}
	}
	return ""
}

// moduleOf returns the directory of the module that a package is in, and the package as the go
// command names it there. Some packages are in modules of their own.
func moduleOf(pkg string) (module, inModule string) {
	for dir := filepath.Clean(pkg); dir != "."; dir = filepath.Dir(dir) {
		module = filepath.Join(root, dir)
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
			return module, "." + strings.TrimPrefix(filepath.Clean(pkg), dir)
		}
	}
	return root, pkg
}
