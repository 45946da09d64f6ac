package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// config is what the flags say.
type config struct {
	server    string
	attackers int
	honest    int
	duration  time.Duration
	every     time.Duration // honest requests of a client
	patience  time.Duration // of honest clients
	late      time.Duration // how late a cut may be
	json      bool
	limits
}

func newFlags(c *config) *flag.FlagSet {
	fs := flag.NewFlagSet("attack", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run reports the error, without a page of help after it
	fs.Usage = func() {}
	fs.StringVar(&c.server, "server", "http", "what to attack: "+strings.Join(serverNames(), ", "))
	fs.IntVar(&c.attackers, "attackers", 2000, "how many attackers there are, a connection each")
	fs.IntVar(&c.honest, "honest", 50, "how many honest clients there are, a connection each; a tenth as many slow ones come on top")
	fs.DurationVar(&c.duration, "duration", 20*time.Second, "how long each attack takes; there are six")
	fs.DurationVar(&c.every, "every", 200*time.Millisecond, "how often an honest client makes a request")
	fs.DurationVar(&c.patience, "patience", 5*time.Second, "how long an honest client waits for an answer")
	fs.DurationVar(&c.late, "late", 3*time.Second, "how late the cut of an attacker may be, on a machine that does other things as well")
	fs.DurationVar(&c.header, "header", 2*time.Second, "the limit of handshakes and of headers")
	fs.DurationVar(&c.body, "body", 2*time.Second, "the limit of a pause within a body; the server's own ReadTimeout if it is longer than -header")
	fs.IntVar(&c.rate, "rate", 240, "the least speed of bodies, in bytes a second")
	fs.DurationVar(&c.grace, "grace", 2*time.Second, "after how long the speeds count")
	fs.DurationVar(&c.write, "write", 2*time.Second, "the limit of a pause within a response; the server's own WriteTimeout")
	fs.IntVar(&c.writeRate, "write-rate", 2400, "the least speed of responses, in bytes a second; the kernel tells of progress in steps of nearly a kilobyte")
	fs.DurationVar(&c.keepAlive, "keepalive", 3*time.Second, "the limit of the wait for a next request")
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
	return c, c.validate()
}

const (
	maxClients = 50_000
	maxRate    = 1 << 20
	minLimit   = 100 * time.Millisecond // less is lost in what a busy machine does
)

func (c *config) validate() error {
	switch {
	case !slices.Contains(serverNames(), c.server):
		return fmt.Errorf("-server is %q; it must be one of %s", c.server, strings.Join(serverNames(), ", "))
	case c.attackers < 1 || c.attackers > maxClients:
		return fmt.Errorf("-attackers is %d; it must be 1 to %d", c.attackers, maxClients)
	case c.honest < 1 || c.honest > maxClients:
		return fmt.Errorf("-honest is %d; it must be 1 to %d", c.honest, maxClients)
	case c.writeRate < 10 || c.writeRate > maxRate:
		return fmt.Errorf("-write-rate is %d; it must be 10 to %d", c.writeRate, maxRate)
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"header", c.header}, {"body", c.body}, {"grace", c.grace}, {"write", c.write}, {"keepalive", c.keepAlive},
		{"patience", c.patience}, {"late", c.late},
	} {
		if f.value < minLimit || f.value > time.Hour {
			return fmt.Errorf("-%s is %v; it must be %v to 1h", f.name, f.value, minLimit)
		}
	}
	switch slowest := c.slowestRate(); {
	case c.rate < slowest || c.rate > maxRate:
		return fmt.Errorf("-rate is %d; with -body %v it must be %d to %d, so that there can be less", c.rate, c.body, slowest, maxRate)
	case c.every < time.Millisecond || c.every > c.keepAlive/2:
		return fmt.Errorf("-every is %v; with -keepalive %v it must be 1ms to %v, so that honest clients are not idle for too long", c.every, c.keepAlive, c.keepAlive/2)
	case c.duration > time.Hour:
		return fmt.Errorf("-duration is %v; it must be at most 1h", c.duration)
	case c.duration < c.shortest():
		return fmt.Errorf("-duration is %v; with these limits it must be at least %v, so that every attacker passes its own", c.duration, c.shortest())
	}
	return nil
}

// ramp is the time in which the attackers come. Honest clients follow.
func (c *config) ramp() time.Duration { return min(c.duration/10, time.Second) }

// shortest is the shortest duration in which the attackers pass their limits.
func (c *config) shortest() time.Duration {
	return (c.longest() * 10 / 8).Round(10 * time.Millisecond) // a tenth is the ramp, another to spare
}

// secure reports whether the server speaks TLS.
func (c *config) secure() bool { return c.server == "https" }

// http2 reports whether the server speaks HTTP/2.
func (c *config) http2() bool { return c.server != "fasthttp" }

// slow is how many honest clients are slow.
func (c *config) slow() int { return max(2, c.honest/10) }

// args are the flags for the server process.
func (c *config) args() []string {
	return []string{
		"-server", c.server,
		"-duration", c.duration.String(),
		"-every", c.every.String(),
		"-header", c.header.String(),
		"-body", c.body.String(),
		"-rate", strconv.Itoa(c.rate),
		"-grace", c.grace.String(),
		"-write", c.write.String(),
		"-write-rate", strconv.Itoa(c.writeRate),
		"-keepalive", c.keepAlive.String(),
	}
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
	for _, k := range kinds() {
		fmt.Fprintf(w, "  %-22s %s\n", k.name, k.what)
	}
	fmt.Fprint(w, `
Exit status: 0 if with idlewheel's timeouts all attackers were cut, none early or
long after its limit, and no honest request failed; 1 if not; 2 if the test could
not be run, 130 after Ctrl-C. It runs on Linux only.
`)
}
