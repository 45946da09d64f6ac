package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// runner tries faults.
type runner struct {
	options
	root string
	dir  string // for overlays

	mu  sync.Mutex // guards what follows
	out io.Writer
	n   tally
}

// tally counts what became of the faults.
type tally struct{ caught, listed, survived, found int }

// tryAll runs the tests with each mutant in turn, and reports whether all that should be
// caught are, and no more.
func tryAll(ctx context.Context, o options, root string, mutants []mutant, out io.Writer) (ok bool, err error) {
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	r := &runner{options: o, root: root, dir: dir, out: out}
	if err := r.unharmed(ctx, mutants); err != nil {
		return false, err
	}
	var workers sync.WaitGroup
	next := make(chan int)
	for range o.jobs {
		workers.Go(func() {
			for i := range next {
				if e := r.try(ctx, i, mutants[i]); e != nil && ctx.Err() == nil {
					r.mu.Lock()
					err = errors.Join(err, e)
					r.mu.Unlock()
				}
			}
		})
	}
	for i := range mutants {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	workers.Wait()
	fmt.Fprintf(out, "%d caught; %d survive as listed; %d survive and should not; %d are caught, but are listed as survivors\n",
		r.n.caught, r.n.listed, r.n.survived, r.n.found)
	return r.n.survived == 0 && r.n.found == 0, errors.Join(err, ctx.Err())
}

// unharmed runs the tests without a fault, as a test that fails then catches nothing.
func (r *runner) unharmed(ctx context.Context, mutants []mutant) error {
	var done []string
	for _, m := range mutants {
		pkgs, flags := m.packages()
		for _, pkg := range pkgs {
			id := strings.Join(append(flags, pkg), " ")
			if slices.Contains(done, id) {
				continue
			}
			done = append(done, id)
			out, err := r.test(ctx, pkg, flags...)
			if err != nil {
				return fmt.Errorf("the tests of %s fail without a fault: %w\n%s", pkg, err, out)
			}
			fmt.Fprintf(r.out, "unharmed   %s", out)
		}
	}
	return nil
}

// packages returns the packages whose tests are to catch f, and the flags for go test.
func (f *fault) packages() (pkgs, flags []string) {
	for _, word := range f.tests {
		if strings.HasPrefix(word, "-") {
			flags = append(flags, word)
		} else {
			pkgs = append(pkgs, word)
		}
	}
	return pkgs, flags
}

// test runs the tests of a package until one fails. What passes is cached.
func (r *runner) test(ctx context.Context, pkg string, flags ...string) (out []byte, err error) {
	args := []string{"test", "-tags=proof", "-short", "-failfast", "-vet=off", "-ldflags=-s -w", "-timeout=" + r.timeout.String()}
	module, pkg := moduleOf(r.root, pkg)
	args = append(append(args, pkg), flags...) // after it may come flags of the tests
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = module
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd.CombinedOutput()
}

// try runs the tests with m, and reports what becomes of it.
func (r *runner) try(ctx context.Context, i int, m mutant) error {
	begin := time.Now()
	overlay, err := r.overlay(i, m)
	if err != nil {
		return err
	}
	by, err := r.catch(ctx, m, overlay)
	if by != "" && m.survives != "" && err == nil {
		// It may be that the test has failed by chance, on a busy machine.
		by, err = r.catch(ctx, m, overlay)
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	took := time.Since(begin).Round(time.Second)
	switch {
	case by != "" && m.survives == "":
		r.n.caught++
		fmt.Fprintf(r.out, "caught     %s\n           by %s in %v\n", m.name(), by, took)
	case by == "" && m.survives != "":
		r.n.listed++
		fmt.Fprintf(r.out, "survives   %s\n           as listed, %v: %s\n", m.name(), took, m.survives)
	case by == "":
		r.n.survived++
		fmt.Fprintf(r.out, "SURVIVES   %s\n           %s, %v\n", m.name(), m.where, took)
	default:
		r.n.found++
		fmt.Fprintf(r.out, "CAUGHT     %s\n           %s says that it survives, but %s fails\n", m.name(), m.where, by)
	}
	return nil
}

// overlay writes what the go command needs to compile m.
func (r *runner) overlay(i int, m mutant) (name string, err error) {
	file := filepath.Join(r.dir, fmt.Sprintf("%d.go", i))
	if err := os.WriteFile(file, m.src, 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{m.path: file}})
	if err != nil {
		return "", err
	}
	name = filepath.Join(r.dir, fmt.Sprintf("%d.json", i))
	return name, os.WriteFile(name, text, 0o600)
}

// catch returns which test fails with m, or else what happens; nothing if all pass.
func (r *runner) catch(ctx context.Context, m mutant, overlay string) (by string, err error) {
	pkgs, flags := m.packages()
	for _, pkg := range pkgs {
		out, err := r.test(ctx, pkg, append(flags, "-overlay="+overlay)...)
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
			how, err := judge(out)
			if err != nil {
				return "", fmt.Errorf("%s: %w", m.name(), err)
			}
			return how + " of " + pkg, nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// judge finds in what go test has printed why it failed.
func judge(out []byte) (how string, err error) {
	text := string(out)
	m := failed.FindStringSubmatch(text)
	switch {
	case strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]"):
		return "", fmt.Errorf("the tests do not compile:\n%s", text)
	case strings.Contains(text, "panic: test timed out"):
		return "a hang", nil
	case m != nil:
		return m[1], nil
	case strings.Contains(text, "panic: ") || strings.Contains(text, "fatal error: "):
		return "a crash", nil
	}
	return "an exit", nil
}
