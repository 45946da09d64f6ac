// Command peers puts idlewheel side by side with the other ways in which a Go
// server can notice that a connection has gone stale.
//
//	go -C bench run ./peers              # everything, half an hour or more
//	go -C bench run ./peers -quick       # smaller, in under a minute
//	go -C bench run ./peers -html FILE   # with plots; -svg FILE for one of them
//	go -C bench run ./peers -run 'reset-.*/(idlewheel|AfterFunc)$'
//
// All contenders are behind one interface and go through the same workloads.
// Every turn of one has a process of its own; the turns are taken in rounds, in
// another order each time. A contender is held to its word: how many
// connections it expired too early, and how many never, stands beside its
// figures, and who does either is nobody's best.
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
	"syscall"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
)

func main() {
	if text := os.Getenv(turnEnv); text != "" {
		if err := serve(text, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "peers:", err)
			os.Exit(statusTrouble)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for anything
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// The exit statuses.
const (
	statusDone        = 0
	statusTrouble     = 2
	statusInterrupted = 130 // as a shell reports Ctrl-C
)

// run is the whole program.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		help(stdout)
		return statusDone
	}
	if err == nil {
		err = measureAll(ctx, cfg, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "peers: %v\n", err)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return statusInterrupted
	case err != nil:
		return statusTrouble
	}
	return statusDone
}

func measureAll(ctx context.Context, cfg config, stdout, stderr io.Writer) error {
	// Before the work, so that it is not in vain.
	html, err := create("html", cfg.html)
	if err != nil {
		return err
	}
	defer html.Close()
	svg, err := create("svg", cfg.svg)
	if err != nil {
		return err
	}
	defer svg.Close()
	contests, where := cfg.contests(), machine.Take(ctx, modules()...)
	interrupted := hold(ctx, cfg, contests, stderr)
	if interrupted != nil && !slices.ContainsFunc(contests, (*contest).begun) {
		return interrupted
	}
	rep := newReport(where, cfg, contests) // of an interrupted run, what there is
	rep.Interrupted = interrupted != nil
	if html != nil {
		if err := errors.Join(rep.page().Write(html), html.Close()); err != nil {
			return fmt.Errorf("writing %s: %w", cfg.html, err)
		}
	}
	if svg != nil {
		plot, err := rep.costPlot()
		if err == nil {
			_, err = svg.Write(plot.File())
		}
		if err := errors.Join(err, svg.Close()); err != nil {
			return fmt.Errorf("writing %s: %w", cfg.svg, err)
		}
	}
	write := rep.table
	if cfg.json {
		write = rep.json
	}
	if err := write(stdout); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return interrupted
}

// create creates the file that a flag names, nil if it names none.
func create(flag, name string) (*os.File, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("-%s is %q; it must be a file that can be written: %w", flag, name, err)
	}
	return f, nil
}
