// Command e2e measures what timeouts cost a whole server: requests a second
// over loopback, and CPU time of the server a request, for the bare server, for
// the server with its own timeouts, and for the server with ours.
//
//	go -C bench run ./e2e -server net
//	go -C bench run ./e2e -server fasthttp   # or http, https, gnet, all
//	go -C bench run ./e2e -html FILE         # with plots
//	go -C bench run ./e2e -stream            # and ours without kernel.Stream
//
// Every variant runs in a process of its own, on one core; the load comes from
// this process, on another. In each round the variants take short turns, in another
// order each time, so that whatever else the machine does hits all of them alike;
// each turn warms up before it counts; and each round has new processes, as where
// one lies in memory matters, too.
// ratio_to_bare and the other ratios are medians of the ratios within a round.
// Where the machine is shared, cpu_ns_per_op is the figure that moves less.
//
// Ours reads and writes by recv and send (kernel.Stream), which costs less than the
// read and write of package net. With -stream there is another variant, no-stream:
// ours, but read and written by package net. Below the table stands what
// kernel.Stream gains, as ratios of ours to no-stream, and how many bytes of heap it
// takes for each connection.
//
// It runs on Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
)

type config struct {
	server   string
	conns    int
	rounds   int
	duration time.Duration
	size     int
	json     bool
	html     string
	stream   bool
}

func main() {
	if variant := os.Getenv(serveEnv); variant != "" {
		exit(serve(variant))
	}
	cfg, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(2)
	}
	exit(run(cfg))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func parse(args []string) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("e2e", flag.ContinueOnError)
	flags.StringVar(&cfg.server, "server", "net", "what to measure: "+strings.Join(serverNames(), ", ")+", or all")
	flags.IntVar(&cfg.conns, "conns", 64, "connections")
	flags.IntVar(&cfg.rounds, "rounds", 60, "rounds, each of new processes")
	flags.DurationVar(&cfg.duration, "duration", 250*time.Millisecond, "how long each variant runs in a round")
	flags.IntVar(&cfg.size, "size", 64, "bytes a message, for echo servers")
	flags.BoolVar(&cfg.json, "json", false, "print one JSON object and nothing else")
	flags.StringVar(&cfg.html, "html", "", "also write the result as one page with plots to this `file`")
	flags.BoolVar(&cfg.stream, "stream", false, "also run ours without kernel.Stream, read and written by package net, and show what that gains and takes")
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	switch {
	case flags.NArg() > 0:
		return cfg, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case cfg.server != "all" && !slices.Contains(serverNames(), cfg.server):
		return cfg, fmt.Errorf("-server is %q; it must be one of %s, or all", cfg.server, strings.Join(serverNames(), ", "))
	case cfg.conns < 1 || cfg.conns > 10_000:
		return cfg, fmt.Errorf("-conns is %d; it must be 1 to 10000", cfg.conns)
	case cfg.rounds < 1:
		return cfg, fmt.Errorf("-rounds is %d; it must be at least 1", cfg.rounds)
	case cfg.duration < 10*time.Millisecond:
		return cfg, fmt.Errorf("-duration is %v; it must be at least 10ms", cfg.duration)
	case cfg.stream && cfg.server == "gnet":
		return cfg, errors.New("-stream is set, and -server is gnet, which does not use package net; it must be another")
	case cfg.size < 1 || cfg.size > bufferSize:
		return cfg, fmt.Errorf("-size is %d; it must be 1 to %d", cfg.size, bufferSize)
	}
	return cfg, nil
}

func run(cfg config) error {
	names := []string{cfg.server}
	if cfg.server == "all" {
		names = serverNames()
	}
	var html *os.File
	if cfg.html != "" { // before the work, so that it is not in vain
		f, err := os.Create(cfg.html)
		if err != nil {
			return fmt.Errorf("-html is %q; it must be a file that can be written: %w", cfg.html, err)
		}
		defer f.Close()
		html = f
	}
	bytesOfStream := 0
	if cfg.stream {
		var err error
		if bytesOfStream, err = streamBytes(); err != nil {
			return fmt.Errorf("measuring what kernel.Stream takes: %w", err)
		}
	}
	rep := report{Machine: machine.Take(context.Background(), modules()...), cfg: cfg}
	core, err := allot()
	if err != nil {
		return fmt.Errorf("cannot keep the load on a core of its own: %w", err)
	}
	for _, name := range names {
		r, err := compare(name, core, cfg)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if r.Stream != nil {
			r.Stream.BytesPerConn = bytesOfStream
		}
		rep.Servers = append(rep.Servers, r)
	}
	if html != nil {
		if err := errors.Join(rep.page().Write(html), html.Close()); err != nil {
			return fmt.Errorf("writing %s: %w", cfg.html, err)
		}
	}
	if !cfg.json {
		printTable(os.Stdout, rep.Servers)
		return nil
	}
	return rep.json(os.Stdout)
}
