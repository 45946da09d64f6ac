// Mutate plants deliberate faults in the code, one at a time, and reports which of
// them the tests catch.
//
//	go run ./internal/mutate                         # all of them: some hours
//	go run ./internal/mutate -run idlehttp/          # those of a package
//	go run ./internal/mutate -run 'status: 408'      # one of them
//	go run ./internal/mutate -list                   # what there is
//	go run ./internal/mutate -check                  # whether all still apply and compile: seconds
//
// The work tree is not changed: the faulty copy of a file is passed to the go command
// as an overlay. Run it on a machine that is not busy otherwise, as a test that fails
// because it is too slow counts as one that catches the fault.
//
// # Faults
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
//	survives: equivalent, as ...
//
// Paragraphs are separated by blank lines, and a line that starts with # is a comment.
// The first line of a fault names the file, the function, method, type, variable or
// constant in it, and what is wrong. Then come the changes: the code that the lines
// with a - have is replaced by that of the lines with a +. It has to occur exactly once
// in the declaration. White space and comments do not matter, and it need not be
// whole lines. A fault can have several changes. Lines with a + that follow none with a
// - are inserted where the body of the function begins.
//
// A fault that no test catches has a line "survives:" with the reason.
//
// A line "tests:" names the packages whose tests are to catch the faults after it; in a
// fault, those that are to catch this one. They are run one after the other, until one
// fails. Words that start with a - are passed to go test. By default tests are run with
// -short.
//
// # What comes out
//
// The exit status is 1 if a fault survives that has no reason to, if one is caught that
// is listed as a survivor (the reason is no longer true then), and if a fault is stale:
// the code that it changes is not found exactly once, or the faulty package does not
// compile. Then mend the entry, or remove it. A test in this package runs -check, so
// faults cannot go stale unnoticed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ok, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "mutate: %v\n", err)
		os.Exit(2)
	case !ok:
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	run         *regexp.Regexp
	list, check bool
	jobs        int
	timeout     time.Duration
}

func parseFlags(args []string) (o options, err error) {
	fs := flag.NewFlagSet("mutate", flag.ExitOnError)
	pattern := fs.String("run", "", "only the faults whose name, as -list prints it, matches this regular `expression`")
	fs.BoolVar(&o.list, "list", false, "list the faults, and do nothing")
	fs.BoolVar(&o.check, "check", false, "only check that the faults apply and compile")
	fs.IntVar(&o.jobs, "j", 1, "how many faults to try at a time; more than 1 disturbs tests that watch the clock")
	fs.DurationVar(&o.timeout, "timeout", time.Minute, "how long the tests of a package may take; a fault by which they take longer is caught")
	fs.Parse(args) // exits if it fails
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; all arguments are flags", fs.Arg(0))
	}
	if o.jobs < 1 {
		return o, fmt.Errorf("-j is %d; it must be at least 1", o.jobs)
	}
	if o.run, err = regexp.Compile(*pattern); err != nil {
		return o, fmt.Errorf("-run: %w", err)
	}
	return o, nil
}

// run does what args ask for, and reports whether all faults fared as they should.
func run(ctx context.Context, args []string, out io.Writer) (ok bool, err error) {
	o, err := parseFlags(args)
	if err != nil {
		return false, err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return false, err
	}
	all, err := load(root)
	if err != nil {
		return false, err
	}
	var faults []fault
	for _, f := range all {
		if o.run.MatchString(f.name()) {
			faults = append(faults, f)
		}
	}
	if len(faults) == 0 {
		return false, errors.New("-run matches no fault; -list prints their names")
	}
	if o.list {
		for _, f := range faults {
			fmt.Fprintln(out, f.name())
		}
		return true, nil
	}
	mutants, ok, err := checkAll(ctx, root, faults, out)
	if err != nil || o.check {
		return ok, err
	}
	tried, err := tryAll(ctx, o, root, mutants, out)
	return ok && tried, err
}

// moduleRoot returns the directory of the module that the working directory is in.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
