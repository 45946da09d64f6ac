// Suites runs test suites of other projects over connections with timeouts, to see that these
// behave like connections without.
//
//	go run ./internal/suites                   # all
//	go run ./internal/suites -suite nethttp    # net/http of the Go toolchain in use
//	go run ./internal/suites -suite fasthttp   # the version in go.mod
//
// The others are http2 (x/net), tls (crypto/tls), coder and gorilla (WebSocket), gnet, grpc, nats
// (nats-server) and redis (miniredis). Versions of modules that go.mod doesn't require are in suite.go.
//
// It needs no network except a module proxy, and that only if the module cache lacks something.
//
// # How it works
//
// What is tested gets one line, in a copy: the Serve method of a server replaces its listener
// by what a function variable returns. A test file that is added to the suite sets that variable,
// so that every listener that a test serves on goes through an adapter, with limits that no test
// reaches. In the same way http2 gets connections that are served without a listener, coder
// both ends of a pipe, and gnet a handler. An http.Server that idlehttp refuses, because it has
// timeouts of its own, gets a listener of idlenet.
//
// The standard library is overlaid (go help build, -overlay), so its tests run where they
// are, and can still reach internals. A module is copied to a temporary directory, and replaced in a
// copy of go.mod. Nothing is left behind.
//
// A toolchain in the module cache, where GOTOOLCHAIN puts it, cannot be overlaid. To
// run its suite, copy it to another directory, and use the go command of the copy.
//
// A listener that speaks TLS, which is what http.Server.Serve is given by ServeTLS and by
// httptest, is handed to idlehttp as it is. Idlenet has to be below TLS, so such a
// listener stays bare if idlehttp refuses its server.
//
// Meanwhile the trackers are controlled, every three milliseconds: policies are replaced by
// equal ones and by ones that are tighter and still generous, as under pressure, capacities
// are set that are never reached, there are censuses, scrapes of the metrics, and garbage
// collections. A bubble of testing/synctest is left alone.
//
// Under -race, servers of HTTP are left alone: Serve is often called on a goroutine of its
// own, too late to set the server's hooks without a race. Listeners without TLS are
// wrapped by idlenet then, which shows that the race detector reports nothing of a
// wrapped connection, with a plain one at the other end. gnet and grpc need no such exception.
//
// # What comes out
//
// Each suite runs twice by the same binary: bare, and wrapped. A test that fails both
// times says something about the machine, and is only listed. One that fails only
// when wrapped is run alone twice; if it passes then, it is reported as unsteady. What
// is left makes the exit status 1. Tests that are known to differ are left out of both
// runs, and run by themselves; they are listed next to each suite, with the reason.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ok, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "suites: %v\n", err)
		os.Exit(2)
	case !ok:
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	suite   string
	run     string
	short   bool
	race    bool
	timeout time.Duration
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("suites", flag.ExitOnError)
	fs.StringVar(&o.suite, "suite", "all", "which suite to run: "+names())
	fs.StringVar(&o.run, "run", "", "run only the tests that match this regular expression, as in go test")
	fs.BoolVar(&o.short, "short", false, "run the suites as with go test -short, which leaves out checks for leaks")
	fs.BoolVar(&o.race, "race", false, "run the suites with the race detector, and servers of HTTP with idlenet")
	fs.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long a run of a package's tests may take")
	fs.Parse(args) // exits if it fails
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q; all arguments are flags", fs.Arg(0))
	case o.suite != "all" && !slices.ContainsFunc(suites, func(s suite) bool { return s.name == o.suite }):
		return o, fmt.Errorf("-suite is %q; it must be one of %s", o.suite, names())
	}
	return o, nil
}

// names returns what -suite may be.
func names() string {
	var list []string
	for _, s := range suites {
		list = append(list, s.name)
	}
	return strings.Join(append(list, "all"), ", ")
}

// run runs the suites that args ask for, and reports whether each did what it does
// without timeouts.
func run(ctx context.Context, args []string, out io.Writer) (ok bool, err error) {
	o, err := parse(args)
	if err != nil {
		return false, err
	}
	ok = true
	for _, s := range suites {
		if o.suite != "all" && o.suite != s.name {
			continue
		}
		same, err := s.compare(ctx, o, out)
		if err != nil {
			return false, fmt.Errorf("%s: %w", s.name, err)
		}
		ok = ok && same
	}
	return ok, nil
}

// compare runs the suite bare and wrapped, and reports on what differs.
func (s suite) compare(ctx context.Context, o options, out io.Writer) (same bool, err error) {
	dir, err := os.MkdirTemp("", "suites-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	r := runner{options: o, dir: dir, packages: s.packages}
	if r.root, err = moduleRoot(ctx); err != nil {
		return false, err
	}
	version, flags, err := s.prepare(ctx, r.root, dir)
	if err != nil {
		return false, err
	}
	r.flags = flags
	fmt.Fprintf(out, "%s: %s\n", s.name, version)

	differences := s.known(o.race)
	skip, harmless := skips(differences)
	run := func(name, wrap, run, skip string) (results, error) {
		begin := time.Now()
		res, err := r.test(ctx, wrap, run, skip)
		if err == nil {
			fmt.Fprintf(out, "  %-8s %s; %v\n", name, res, time.Since(begin).Round(time.Second))
		}
		return res, err
	}
	bare, err := run("bare", "", o.run, skip)
	if err != nil {
		return false, err
	}
	wrap := "adapter"
	if o.race {
		wrap = "race"
	}
	wrapped, err := run("wrapped", wrap, o.run, skip)
	if err != nil {
		return false, err
	}
	wraps, err := r.wraps()
	if err != nil {
		return false, err
	}
	fmt.Fprint(out, wraps)
	if wraps.intended() == 0 && o.run == "" {
		return false, errors.New("its adapter wrapped nothing, so nothing was tested")
	}

	d := difference(bare, wrapped)
	if err := d.repeat(wrapped, func(tests string) (results, error) { return run("again", wrap, tests, "") }); err != nil {
		return false, err
	}
	var alone map[test]string
	if harmless != "" && o.run == "" && !o.race {
		res, err := run("known", wrap, harmless, "")
		if err != nil {
			return false, err
		}
		alone = res.outcome
	}
	for _, k := range differences {
		what := "known"
		if alone != nil && !k.fatal {
			switch outcome, exists := alone[k.test]; {
			case !exists:
				what = "known, but not in this version"
			case outcome != "fail":
				what = "known, but passes now"
			}
		}
		fmt.Fprintf(out, "  %s: %s: %s\n", what, k.test, k.reason)
	}
	d.print(out, wrapped)
	return len(d.unexpected) == 0, nil
}
