package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// config is what the flags say.
type config struct {
	duration time.Duration
	conns    int
	slack    time.Duration
	servers  names
	seed     uint64
	json     bool
	progress bool

	abuse  bool
	rounds int
}

const (
	shortest  = 5 * time.Second
	maxConns  = 10_000 // loopback has 28,000 ports, and those left by others wait a minute
	maxRounds = 1000
)

func newFlags(c *config) *flag.FlagSet {
	fs := flag.NewFlagSet("soak", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run reports the error, without a page of help after it
	fs.Usage = func() {}
	c.servers = serverNames()
	fs.DurationVar(&c.duration, "duration", 10*time.Minute, "how long the load lasts")
	fs.IntVar(&c.conns, "conns", 1200, "how many clients there are at a time; each takes two descriptors")
	fs.DurationVar(&c.slack, "slack", 2*time.Second, "how much longer than its limit a stale connection may be kept, on a busy machine, before it is a violation")
	fs.Var(&c.servers, "servers", "which servers are run, separated by commas")
	fs.Uint64Var(&c.seed, "seed", 1, "what the clients' lives are drawn from")
	fs.BoolVar(&c.json, "json", false, "write one JSON object to stdout, and nothing else")
	fs.BoolVar(&c.progress, "progress", false, "tell on stderr how it goes")
	fs.BoolVar(&c.abuse, "abuse", false, "measure what abusive clients cost servers with and without timeouts, instead")
	fs.IntVar(&c.rounds, "rounds", 9, "with -abuse, in how many rounds both are measured")
	return fs
}

// parse returns what args say, or an error that names the flag and its value.
func parse(args []string) (config, error) {
	var c config
	fs := newFlags(&c)
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q; all arguments are flags", fs.Arg(0))
	}
	return c, c.validate()
}

func (c *config) validate() error {
	switch {
	case c.duration < shortest || c.duration >= 7*24*time.Hour:
		return fmt.Errorf("-duration is %v; it must be %v to a week", c.duration, shortest)
	case c.conns < len(c.servers) || c.conns > maxConns:
		return fmt.Errorf("-conns is %d; it must be %d, one a server, to %d", c.conns, len(c.servers), maxConns)
	case c.slack < 4*tick:
		return fmt.Errorf("-slack is %v; it must be at least %v, since a timeout may be two ticks late", c.slack, 4*tick)
	case c.rounds < 1 || c.rounds > maxRounds:
		return fmt.Errorf("-rounds is %d; it must be 1 to %d", c.rounds, maxRounds)
	}
	return nil
}

// names is a flag with names of servers.
type names []string

func (n *names) String() string { return strings.Join(*n, ",") }

func (n *names) Set(s string) error {
	var chosen names
	for name := range strings.SplitSeq(s, ",") {
		if !slices.Contains(serverNames(), name) {
			return fmt.Errorf("there is no server %q; there are %s", name, strings.Join(serverNames(), ", "))
		}
		if slices.Contains(chosen, name) {
			return fmt.Errorf("%q is there twice", name)
		}
		chosen = append(chosen, name)
	}
	*n = chosen
	return nil
}

func usage(w io.Writer) {
	fmt.Fprint(w, `Soak puts a mixed load over real sockets on servers with idlewheel's timeouts, and
checks who is closed, when, and why, and that nothing leaks.

usage: go -C bench run ./soak [flags]

`)
	var c config
	newFlags(&c).VisitAll(func(f *flag.Flag) {
		kind, text := flag.UnquoteUsage(f)
		fmt.Fprintf(w, "  %-20s %s (default %s)\n", "-"+f.Name+" "+kind, text, f.DefValue)
	})
	fmt.Fprint(w, `
Exit status: 0 if nothing was violated and nothing leaked, 1 if something was or
did, 2 if the soak could not be run. Ctrl-C ends it early, with a report. With
-abuse the status says only whether it could be measured.
`)
}
