package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/attack"
)

// config is what the flags say.
type config struct {
	attack.Config
	json bool
}

func newFlags(c *config) *flag.FlagSet {
	fs := flag.NewFlagSet("attack", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run reports the error, without a page of help after it
	fs.Usage = func() {}
	fs.StringVar(&c.Server, "server", "http", "what to attack: "+strings.Join(attack.Servers(), ", "))
	fs.IntVar(&c.Attackers, "attackers", 2000, "how many attackers there are, a connection each")
	fs.IntVar(&c.Honest, "honest", 50, "how many honest clients there are, a connection each; a tenth as many slow ones come on top")
	fs.DurationVar(&c.Duration, "duration", 20*time.Second, "how long each attack takes; there are six")
	fs.DurationVar(&c.Every, "every", 200*time.Millisecond, "how often an honest client makes a request")
	fs.DurationVar(&c.Patience, "patience", 5*time.Second, "how long an honest client waits for an answer")
	fs.DurationVar(&c.Late, "late", 3*time.Second, "how late the cut of an attacker may be, on a machine that does other things as well")
	fs.DurationVar(&c.Header, "header", 2*time.Second, "the limit of handshakes and of headers")
	fs.DurationVar(&c.Body, "body", 2*time.Second, "the limit of a pause within a body; the server's own ReadTimeout if it is longer than -header")
	fs.IntVar(&c.Rate, "rate", 240, "the minimum rate of bodies, in bytes a second")
	fs.DurationVar(&c.Grace, "grace", 2*time.Second, "after how long the rates count")
	fs.DurationVar(&c.Write, "write", 2*time.Second, "the limit of a pause within a response; the server's own WriteTimeout")
	fs.IntVar(&c.WriteRate, "write-rate", 2400, "the minimum rate of responses, in bytes a second; the kernel tells of progress in steps of nearly a kilobyte")
	fs.DurationVar(&c.KeepAlive, "keepalive", 3*time.Second, "the limit of the wait for a next request")
	fs.BoolVar(&c.json, "json", false, "write one JSON object to stdout, and nothing else")
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
	return c, c.Validate()
}

func usage(w io.Writer) {
	fmt.Fprint(w, `Attack proves by attack that slow clients cannot hold an HTTP server.

usage: go -C bench run ./attack [flags]

`)
	var c config
	newFlags(&c).VisitAll(func(f *flag.Flag) {
		kind, text := flag.UnquoteUsage(f)
		fmt.Fprintf(w, "  %-22s %s (default %s)\n", "-"+f.Name+" "+kind, text, f.DefValue)
	})
	fmt.Fprintln(w, "\nThe attackers:")
	for _, k := range attack.Kinds() {
		fmt.Fprintf(w, "  %-22s %s\n", k[0], k[1])
	}
	fmt.Fprint(w, `
Exit status: 0 if with idlewheel's timeouts all attackers were cut, none early or
long after its limit, and no honest request failed; 1 if not; 2 if the test could
not be run, 130 after Ctrl-C. It runs on Linux only.
`)
}
