package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A runner runs the tests of a suite.
type runner struct {
	options
	root, dir string
	flags     []string // by which go test finds the suite
	packages  []string
}

// A test is named by its package and its own name, which is empty for what a package
// does beside its tests, in TestMain.
type test struct{ pkg, name string }

func (t test) String() string {
	if t.name == "" {
		return t.pkg + " (the process)"
	}
	return t.pkg + " " + t.name
}

// top returns the name without subtests.
func (t test) top() string {
	name, _, _ := strings.Cut(t.name, "/")
	return name
}

// results are what became of tests.
type results struct {
	outcome map[test]string // pass, fail, skip, or run for those that did not end
	output  map[test][]string
}

// An event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // of build output
}

// test runs the tests that match run, but for those that match skip; both may be
// empty. wrap is empty for bare listeners.
func (r *runner) test(ctx context.Context, wrap, run, skip string) (results, error) {
	args := []string{"test", "-json", "-count=1", "-timeout", r.timeout.String()}
	args = append(args, r.flags...)
	if r.short {
		args = append(args, "-short")
	}
	if r.race {
		args = append(args, "-race")
	}
	if run != "" {
		args = append(args, "-run", run)
	}
	if skip != "" {
		args = append(args, "-skip", skip)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, r.packages...)...)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "GOWORK=off", "SUITES_WRAP="+wrap, "SUITES_LOG="+r.log())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return results{}, errors.Join(err, ctx.Err())
	}
	res, err := read(stdout)
	if err != nil {
		return results{}, fmt.Errorf("%w\n%s", err, stderr.Bytes())
	}
	return res, nil
}

// read reads what go test -json has written.
func read(stdout []byte) (results, error) {
	res := results{map[test]string{}, map[test][]string{}}
	lines := bufio.NewScanner(bytes.NewReader(stdout))
	lines.Buffer(nil, 64<<20)
	var build strings.Builder
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return res, fmt.Errorf("%w in %q", err, lines.Bytes())
		}
		t := test{e.Package, e.Test}
		switch e.Action {
		case "run", "start", "pass", "fail", "skip":
			if e.Action == "start" {
				e.Action = "run"
			}
			res.outcome[t] = e.Action
		case "output":
			res.output[t] = append(res.output[t], e.Output)
		case "build-output":
			build.WriteString(e.Output)
		case "build-fail":
			return res, fmt.Errorf("%s does not build:\n%s", e.ImportPath, &build)
		}
	}
	if err := lines.Err(); err != nil {
		return res, err
	}
	if len(res.outcome) == 0 {
		return res, errors.New("go test ran nothing")
	}
	return res, nil
}

// failed reports whether t, and none of its subtests, failed or did not end.
func (r results) failed(t test) bool {
	if o := r.outcome[t]; o != "fail" && o != "run" {
		return false
	}
	for u, o := range r.outcome {
		if (o == "fail" || o == "run") && u != t && u.pkg == t.pkg && (t.name == "" || strings.HasPrefix(u.name, t.name+"/")) {
			return false
		}
	}
	return true
}

// String counts the outcomes of tests, subtests included.
func (r results) String() string {
	n := map[string]int{}
	for t, o := range r.outcome {
		if t.name != "" {
			n[o]++
		}
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped, %d did not end", n["pass"], n["fail"], n["skip"], n["run"])
}

func (r *runner) log() string { return filepath.Join(r.dir, "wraps.log") }

// field finds what an adapter refuses, in its error, which goes on with a value.
var field = regexp.MustCompile(`(Server\.\w+) .*`)

// wraps has what was wrapped by what, and how many times.
type wraps map[string]int

func (r *runner) wraps() (wraps, error) {
	text, err := os.ReadFile(r.log())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	w := wraps{}
	for line := range strings.Lines(string(text)) {
		w[field.ReplaceAllString(strings.TrimSpace(line), "$1")]++
	}
	return w, nil
}

// intended returns how many of them used the adapter that the suite is for: wrap in testdata
// falls back to idlenet where that refuses a server.
func (w wraps) intended() (n int) {
	for how, k := range w {
		if !strings.Contains(how, ", as ") {
			n += k
		}
	}
	return n
}

func (w wraps) String() string {
	var lines []string
	for how, n := range w {
		lines = append(lines, fmt.Sprintf("%12d times a %s\n", n, how))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(b, a) }) // the most first
	return strings.Join(lines, "")
}
