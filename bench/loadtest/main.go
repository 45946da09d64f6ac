// Loadtest runs connections by the million through the real tracker, in real
// time, and checks what comes out against an oracle that knows what every one
// of them did: who had to be closed, when, and for which reason.
//
//	go -C bench run ./loadtest                  # a million mock connections, about 25 s
//	go -C bench run ./loadtest -conns 10000000  # ten million
//	go -C bench run ./loadtest -sockets 5000    # real TCP connections over loopback
//	go -C bench run ./loadtest -json            # one JSON object on stdout
//	go -C bench run ./loadtest -report r.html   # a page with plots, too
//
// Some connections are active all the time, some fall silent, some beat, some
// end by themselves before their deadline. The exit status is 0 if the tracker
// closed exactly those that were due, 1 if not, and 2 if the test could not be
// run as asked.
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
	statusPass        = 0
	statusFail        = 1
	statusTrouble     = 2
	statusInterrupted = 130 // as a shell reports Ctrl-C
)

// run is the whole program.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == serverCommand {
		return runServer(args[1:], stdin, stdout, stderr)
	}
	cfg, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		usage(stdout)
		return statusPass
	}
	if err != nil {
		fmt.Fprintf(stderr, "loadtest: %v (-h lists the flags)\n", err)
		return statusTrouble
	}
	rep, err := test(ctx, cfg, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "loadtest: %v\n", err)
		return statusTrouble
	}
	write := rep.table
	if cfg.json {
		write = rep.json
	}
	if err := write(stdout); err != nil {
		fmt.Fprintf(stderr, "loadtest: writing the result: %v\n", err)
		return statusTrouble
	}
	if cfg.report != "" {
		if err := rep.writePage(cfg.report); err != nil {
			fmt.Fprintf(stderr, "loadtest: -report: %v\n", err)
			return statusTrouble
		}
	}
	return rep.status()
}

// test runs the test that cfg asks for.
func test(ctx context.Context, cfg config, stderr io.Writer) (*report, error) {
	if cfg.sockets > 0 {
		return runSockets(ctx, cfg, stderr)
	}
	return runMock(ctx, cfg, stderr)
}
