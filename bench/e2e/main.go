// Command e2e measures what timeouts cost a whole server: requests a second
// over loopback, and CPU time of the server a request, for the bare server, for
// the server with its own timeouts, and for the server with ours.
//
//	go -C bench run ./e2e -server net
//	go -C bench run ./e2e -server fasthttp   # or http, https, gnet, all
//
// Every variant runs in a process of its own, on one core; the load comes from
// this process, on another. The variants take turns, in another order each
// round, so that whatever else the machine does hits all of them alike, and
// ratio_to_bare and the other ratios are medians of the ratios within a round.
// Where the machine is shared, cpu_ns_per_op is the figure that moves less.
//
// It runs on Linux only.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

type config struct {
	server   string
	conns    int
	rounds   int
	duration time.Duration
	size     int
	json     bool
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
	flags.IntVar(&cfg.rounds, "rounds", 15, "rounds, in each of which every variant has a turn")
	flags.DurationVar(&cfg.duration, "duration", time.Second, "how long a turn lasts")
	flags.IntVar(&cfg.size, "size", 64, "bytes a message, for echo servers")
	flags.BoolVar(&cfg.json, "json", false, "print one JSON object and nothing else")
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
	case cfg.size < 1 || cfg.size > bufferSize:
		return cfg, fmt.Errorf("-size is %d; it must be 1 to %d", cfg.size, bufferSize)
	}
	return cfg, nil
}

// result is what is printed of a server.
type result struct {
	Server   string    `json:"server"`
	Conns    int       `json:"conns"`
	Rounds   int       `json:"rounds"`
	Variants []measure `json:"variants"`
}

type measure struct {
	Name        string   `json:"name"`
	OpsPerS     summary  `json:"ops_per_s"`
	RatioToBare float64  `json:"ratio_to_bare"`
	RatioSpread summary  `json:"ratio_spread"`           // of the ratios to bare
	RatioToOwn  *float64 `json:"ratio_to_own,omitempty"` // none if the server has no timeouts of its own

	// CPUPerOp is CPU time of the server process, in ns.
	CPUPerOp       summary  `json:"cpu_ns_per_op"`
	CPURatioToBare float64  `json:"cpu_ratio_to_bare"`
	CPURatioToOwn  *float64 `json:"cpu_ratio_to_own,omitempty"`
}

type summary struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func run(cfg config) error {
	names := []string{cfg.server}
	if cfg.server == "all" {
		names = serverNames()
	}
	var results []result
	for _, name := range names {
		r, err := compare(name, cfg)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		results = append(results, r)
	}
	if !cfg.json {
		printTable(os.Stdout, results)
		return nil
	}
	if cfg.server == "all" {
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"servers": results})
	}
	return json.NewEncoder(os.Stdout).Encode(results[0])
}

func printTable(w io.Writer, results []result) {
	for _, r := range results {
		fmt.Fprintf(w, "%s, %d connections, %d rounds\n", r.Server, r.Conns, r.Rounds)
		fmt.Fprintf(w, "  %-6s %12s %20s %9s %9s %14s %9s %9s\n", "",
			"requests/s", "(min to max)", "of bare", "of own", "CPU a request", "of bare", "of own")
		for _, v := range r.Variants {
			fmt.Fprintf(w, "  %-6s %12.0f %20s %9.3f %9s %11.0f ns %9.3f %9s\n", v.Name, v.OpsPerS.Median,
				fmt.Sprintf("(%.0f to %.0f)", v.OpsPerS.Min, v.OpsPerS.Max), v.RatioToBare, ratioText(v.RatioToOwn),
				v.CPUPerOp.Median, v.CPURatioToBare, ratioText(v.CPURatioToOwn))
		}
	}
}

func ratioText(ratio *float64) string {
	if ratio == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *ratio)
}
