package main

import (
	"flag"
	"fmt"
	"io"
	"regexp"
)

// config is what the flags say.
type config struct {
	quick  bool
	json   bool
	html   string
	svg    string
	rounds int
	run    *regexp.Regexp
}

const (
	fullRounds  = 6 // the fewest of which a median is known with 95 % confidence
	quickRounds = 2
	maxRounds   = 1000
)

func newFlags(c *config, pattern *string) *flag.FlagSet {
	fs := flag.NewFlagSet("peers", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run reports the error, without a page of help after it
	fs.Usage = func() {}
	fs.BoolVar(&c.quick, "quick", false, "all of it in under a minute: fewer connections, fewer rounds")
	fs.BoolVar(&c.json, "json", false, "write one JSON object to stdout, and nothing else")
	fs.StringVar(&c.html, "html", "", "also write the result as one page with plots to this `file`")
	fs.StringVar(&c.svg, "svg", "", "also write the plot of costs to this `file`")
	fs.IntVar(&c.rounds, "rounds", 0, fmt.Sprintf("in how many rounds everything has its turn, what is slow in every third only; %d if not set, %d with -quick", fullRounds, quickRounds))
	fs.StringVar(pattern, "run", "", "only what matches this `regexp`, of the form workload/contender")
	return fs
}

// parse returns what args say, or an error that names the flag and its value.
func parse(args []string) (config, error) {
	var c config
	var pattern string
	fs := newFlags(&c, &pattern)
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	given := false
	fs.Visit(func(f *flag.Flag) { given = given || f.Name == "rounds" })
	if !given {
		c.rounds = fullRounds
		if c.quick {
			c.rounds = quickRounds
		}
	}
	var err error
	if c.run, err = regexp.Compile(pattern); err != nil {
		return c, fmt.Errorf("-run is %q; it must be a regular expression: %w", pattern, err)
	}
	switch {
	case fs.NArg() > 0:
		return c, fmt.Errorf("unexpected argument %q; all arguments are flags", fs.Arg(0))
	case c.rounds < 1:
		return c, fmt.Errorf("-rounds is %d; it must be at least 1", c.rounds)
	case c.rounds > maxRounds:
		return c, fmt.Errorf("-rounds is %d; it must be at most %d", c.rounds, maxRounds)
	case len(c.contests()) == 0:
		return c, fmt.Errorf("-run is %q; it matches nothing, such as reset-hot/idlewheel would be", pattern)
	}
	return c, nil
}

func (c config) scale() scale {
	if c.quick {
		return quickScale()
	}
	return fullScale()
}

func help(w io.Writer) {
	fmt.Fprint(w, `Peers puts idlewheel and the other ways to time connections in Go through the
same workloads, side by side.

usage: go -C bench run ./peers [flags]

`)
	var c config
	var pattern string
	newFlags(&c, &pattern).VisitAll(func(f *flag.Flag) {
		kind, text := flag.UnquoteUsage(f)
		fmt.Fprintf(w, "  %-14s %s\n", "-"+f.Name+" "+kind, text)
	})
	fmt.Fprint(w, "\nWorkloads:\n")
	for _, load := range workloads(fullScale()) {
		for _, m := range load.measures {
			fmt.Fprintf(w, "  %-24s %s (%s)\n", m.name, m.title, m.unit)
		}
	}
	fmt.Fprint(w, "\nContenders:\n")
	printContenders(w)
}
