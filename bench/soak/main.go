// Soak puts a mixed load over real loopback sockets on servers of all kinds
// (idlenet, idlegnet, idlehttp with HTTP/1, HTTP/2 and hijacked connections,
// idlefasthttp), for as long as asked, and checks what becomes of every single
// connection.
//
//	go -C bench run ./soak                       # ten minutes
//	go -C bench run ./soak -duration 10s -json   # one JSON object on stdout
//	go -C bench run ./soak -abuse                # what a hostile client costs, instead
//
// Those that are active must never be closed, those that fall silent must be, in
// time and for the right reason; the counters have to add up, and nothing may
// leak. The exit status is 0 if all of that is so, 1 if not, and 2 if the soak
// could not be run as asked.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/idlewheel/idlewheel/bench/internal/attack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for anything
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// The exit statuses.
const (
	statusPass    = 0
	statusFail    = 1
	statusTrouble = 2
)

// run is the whole program.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 2 && args[0] == attack.Command {
		if err := attack.Serve(args[1], stdin, stdout); err != nil {
			fmt.Fprintf(stderr, "soak: server: %v\n", err)
			return statusTrouble
		}
		return statusPass
	}
	cfg, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		usage(stdout)
		return statusPass
	}
	if err != nil {
		fmt.Fprintf(stderr, "soak: %v (-h lists the flags)\n", err)
		return statusTrouble
	}
	write, result, passed, err := test(ctx, cfg, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "soak: %v\n", err)
		return statusTrouble
	}
	if cfg.json {
		write = func(w io.Writer) error { return writeJSON(w, result) }
	}
	if err := write(stdout); err != nil {
		fmt.Fprintf(stderr, "soak: writing the result: %v\n", err)
		return statusTrouble
	}
	if !passed {
		return statusFail
	}
	return statusPass
}

// test runs what cfg asks for. The cost of abuse is for people to judge, so it
// is always a pass.
func test(ctx context.Context, cfg config, stderr io.Writer) (table func(io.Writer) error, result any, passed bool, err error) {
	if !cfg.abuse {
		rep, err := runSoak(ctx, cfg, stderr)
		if err != nil {
			return nil, nil, false, err
		}
		return rep.table, rep, rep.passed(), nil
	}
	rep, err := attack.Cost(ctx, cfg.rounds, stderr, func(what string) {
		if cfg.progress {
			fmt.Fprintf(stderr, "soak: %s\n", what)
		}
	})
	if err != nil {
		return nil, nil, false, err
	}
	return rep.Table, rep, true, nil
}
