// Command peers puts idlewheel side by side with the other ways in which a Go
// server can notice that a connection has gone stale.
//
//	go -C bench run ./peers              # everything, 20 minutes
//	go -C bench run ./peers -quick       # smaller, in under a minute
//	go -C bench run ./peers -html FILE   # with a plot; -svg FILE for that alone
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
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/page"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

func main() {
	child.Main(roles())
	newProgram(&config{}).Main()
}

func roles() map[string]child.Role { return map[string]child.Role{"turn": serve} }

func newProgram(c *config) *program.Program[*report] {
	return &program.Program[*report]{
		Name:  "peers",
		Does:  "Peers puts idlewheel and the other ways to time connections in Go through the same workloads, side by side.",
		Flags: c.define,
		Check: c.check,
		More:  help,
		Begin: func() string {
			return fmt.Sprintf("peers: ways to notice that a connection has gone stale\n%d contests, %d rounds, each turn in a process of its own\n", len(c.contests()), c.rounds)
		},
		Run: func(ctx context.Context, stderr io.Writer) (*report, error) { return measureAll(ctx, *c, stderr) },
		Files: []program.File[*report]{
			{Flag: "html", Usage: "also write the result as one page with a plot to this `file`", Write: func(w io.Writer, r *report) error {
				return page.Write(w, "Ways to notice that a connection has gone stale", r.Table, r.costPlot())
			}},
			{Flag: "svg", Usage: "also write the plot of costs to this `file`", Write: func(w io.Writer, r *report) error {
				svg, err := r.costPlot().SVG()
				fmt.Fprint(w, svg)
				return err
			}},
		},
	}
}

// config is what the flags say.
type config struct {
	quick   bool
	rounds  int
	pattern string
	run     *regexp.Regexp
}

const (
	fullRounds  = 6 // the fewest of which a median is known with 95 % confidence
	quickRounds = 2
	maxRounds   = 1000
)

func (c *config) define(fs *flag.FlagSet) {
	fs.BoolVar(&c.quick, "quick", false, "all of it in under a minute: fewer connections, fewer rounds")
	fs.IntVar(&c.rounds, "rounds", 0, fmt.Sprintf("in how many rounds everything has its turn; 0 for %d, or %d with -quick", fullRounds, quickRounds))
	fs.StringVar(&c.pattern, "run", "", "only what matches this `regexp`, of the form workload/contender")
}

func (c *config) check() (err error) {
	switch {
	case c.rounds == 0 && c.quick:
		c.rounds = quickRounds
	case c.rounds == 0:
		c.rounds = fullRounds
	}
	if c.run, err = regexp.Compile(c.pattern); err != nil {
		return fmt.Errorf("-run is %q; it must be a regular expression: %w", c.pattern, err)
	}
	if len(c.contests()) == 0 {
		return fmt.Errorf("-run is %q; it matches nothing, such as reset-hot/idlewheel would be", c.pattern)
	}
	return program.Within("rounds", c.rounds, 1, maxRounds, "")
}

func (c *config) scale() scale {
	if c.quick {
		return quickScale()
	}
	return fullScale()
}

const helpColumn = 27

func help(w io.Writer) {
	fmt.Fprintln(w, "Workloads:")
	for _, load := range workloads(fullScale()) {
		for _, m := range load.measures {
			table.Entry(w, m.name, m.title+" ("+m.unit+")", helpColumn)
		}
	}
	fmt.Fprintln(w, "\nContenders:")
	writeContenders(w)
}

func writeContenders(w io.Writer) {
	for _, k := range contender.All() {
		table.Entry(w, k.Name, k.About(), helpColumn)
	}
}

func measureAll(ctx context.Context, cfg config, stderr io.Writer) (*report, error) {
	contests, where := cfg.contests(), machine.Take(ctx, modules()...)
	interrupted := hold(ctx, cfg, contests, stderr)
	if interrupted != nil && !slices.ContainsFunc(contests, func(ct *contest) bool { return len(ct.outcomes) > 0 }) {
		return nil, interrupted
	}
	return &report{ // of an interrupted run, what there is
		Machine: where, Contenders: contender.All(), Rows: rows(contests), Interrupted: interrupted != nil, cfg: cfg,
	}, nil
}
