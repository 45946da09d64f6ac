// Attack proves by attack that slow clients cannot hold an HTTP server. It
// attacks a server in a process of its own over real sockets, by slow headers,
// slow bodies, slow readers, silence and more, while honest clients make
// requests: the bare server, the server with its own timeouts, and the server
// with ours.
//
//	go -C bench run ./attack -server http
//	go -C bench run ./attack -server https
//	go -C bench run ./attack -server fasthttp -json
//
// Every variant is run twice: with ample descriptors, and with only as many as
// there are attackers, who come first.
//
// The exit status is 0 if with ours every attacker was cut, none before its
// limit or long after, and no honest request failed; 1 if not; and 2 if the test
// could not be run as asked.
//
// It runs on Linux only: it asks the kernel what slow readers have taken.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/idlewheel/idlewheel/bench/internal/attack"
)

// The exit statuses.
const (
	statusPass        = 0
	statusFail        = 1
	statusTrouble     = 2
	statusInterrupted = 130 // as a shell reports Ctrl-C
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for anything
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is the whole program.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 2 && args[0] == attack.Command {
		if err := attack.Serve(args[1], stdin, stdout); err != nil {
			fmt.Fprintf(stderr, "attack: server: %v\n", err)
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
		fmt.Fprintf(stderr, "attack: %v (-h lists the flags)\n", err)
		return statusTrouble
	}
	rep, err := attack.Run(ctx, cfg.Config, stderr, func(what string) { announce(stderr, what, cfg.Duration) })
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "attack: interrupted")
		return statusInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "attack: %v\n", err)
		return statusTrouble
	}
	write := rep.Table
	if cfg.json {
		write = func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(rep)
		}
	}
	if err := write(stdout); err != nil {
		fmt.Fprintf(stderr, "attack: writing the result: %v\n", err)
		return statusTrouble
	}
	if !rep.Passed {
		return statusFail
	}
	return statusPass
}
