// Peers compares idlewheel with the other ways in which a Go server can notice that a
// connection has gone stale.
//
//	go -C bench run ./peers                # 5 minutes
//	go -C bench run ./peers -quick         # smaller, in ten seconds
//	go -C bench run ./peers -run 'reset|arm' -rounds 5
//
// All contenders are behind one interface and run the same workloads. Each turn of one has
// a process of its own. The turns are taken in rounds, in a different order each time, so
// that other load on the machine affects all of them alike. A figure is the median over the
// rounds. How many connections a contender expired too early, or never, stands beside its
// figures.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

func main() {
	child.Main(roles())
	newProgram().Main()
}

func roles() map[string]child.Role { return map[string]child.Role{"turn": serve} }

// config is what the flags say.
type config struct {
	quick   bool
	rounds  int
	pattern string
	run     *regexp.Regexp
}

func newProgram() *program.Program[*report] {
	c := &config{}
	return &program.Program[*report]{
		Name: "peers",
		Does: "Peers compares idlewheel with the other ways to time connections in Go.",
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&c.quick, "quick", false, "fewer connections, and one round, unless -rounds is set")
			fs.IntVar(&c.rounds, "rounds", 0, "in how many rounds everything has its turn; 0 for 3, or 1 with -quick")
			fs.StringVar(&c.pattern, "run", "", "only what matches this `regexp`, of the form workload/contender")
		},
		Check: c.check,
		Begin: func() string {
			return fmt.Sprintf("peers: %d contests, %d rounds, each turn in a process of its own", len(c.contests()), c.rounds)
		},
		Run: c.hold,
	}
}

func (c *config) check() (err error) {
	if c.rounds == 0 {
		c.rounds = 3
		if c.quick {
			c.rounds = 1
		}
	}
	if c.run, err = regexp.Compile(c.pattern); err != nil {
		return fmt.Errorf("-run is %q; it must be a regular expression: %w", c.pattern, err)
	}
	if len(c.contests()) == 0 {
		return fmt.Errorf("-run is %q; it matches nothing, such as reset-hot/idlewheel would be", c.pattern)
	}
	return program.Within("rounds", c.rounds, 1, 1000, "")
}

// A contest is a contender in a workload, over all rounds.
type contest struct {
	work     workload
	kind     contender.Kind
	conns    int
	outcomes []outcome
	failed   error
}

// contests returns those that the flags ask for. A contender that can't have as many
// connections takes part in workloads whose figures are per connection, with as many as it
// can have.
func (c *config) contests() (all []*contest) {
	for _, w := range workloads(c.quick) {
		for _, k := range contender.All() {
			conns := w.conns
			if k.Most > 0 {
				conns = min(conns, k.Most)
			}
			if (conns == w.conns || w.each) && c.run.MatchString(w.name+"/"+k.Name) {
				all = append(all, &contest{work: w, kind: k, conns: conns})
			}
		}
	}
	return all
}

// hold runs all contests, in a different order each round.
func (c *config) hold(ctx context.Context, show func(string, ...any)) (*report, error) {
	contests := c.contests()
	for round := range c.rounds {
		for i, at := range rand.Perm(len(contests)) {
			ct := contests[at]
			show("round %d of %d, turn %d of %d: %s/%s", round+1, c.rounds, i+1, len(contests), ct.work.name, ct.kind.Name)
			o, err := delegate(ctx, order{ct.work.name, ct.kind.Name, ct.conns, c.quick})
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if ct.failed = err; err == nil {
				ct.outcomes = append(ct.outcomes, o)
			}
		}
	}
	return newReport(c, contests), nil
}

// An order is what a child is told.
type order struct {
	Workload  string
	Contender string
	Conns     int
	Quick     bool
}

// serve runs the turn that a child was told to.
func serve(parent *child.Parent) error {
	var ord order
	if err := parent.Hear(&ord); err != nil {
		return err
	}
	all, kinds := workloads(ord.Quick), contender.All()
	i := slices.IndexFunc(all, func(w workload) bool { return w.name == ord.Workload })
	k := slices.IndexFunc(kinds, func(k contender.Kind) bool { return k.Name == ord.Contender })
	o, err := all[i].run(turn{kind: kinds[k], conns: ord.Conns, scale: scaleOf(ord.Quick)})
	if err != nil {
		return err
	}
	return parent.Tell(o)
}

// delegate has a child run a turn.
func delegate(ctx context.Context, ord order) (o outcome, err error) {
	limit := scaleOf(ord.Quick).limit
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("still running after %v", limit))
	defer cancel()
	var stderr bytes.Buffer
	c, err := child.Start("turn", ord, &stderr)
	if err != nil {
		return o, err
	}
	defer context.AfterFunc(limited, c.Kill)()
	heard, ended := c.Hear(&o), c.Stop()
	switch {
	case limited.Err() != nil:
		return o, context.Cause(limited)
	case ended != nil:
		line, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return o, fmt.Errorf("%w: %s", ended, line)
	}
	return o, heard
}

type report struct {
	Machine machine.Machine `json:"machine"`
	Quick   bool            `json:"quick"`
	Rows    []*row          `json:"rows"`
}

// A row is a measure, and the figures of the contenders.
type row struct {
	Measure string            `json:"measure"`
	Unit    string            `json:"unit"`
	What    string            `json:"what"`
	Conns   int               `json:"conns"`
	Figures map[string]figure `json:"figures"` // by contender
}

// A figure is what came out for a contender.
type figure struct {
	Median float64   `json:"median"`
	Turns  []float64 `json:"turns"`
	Conns  int       `json:"conns"` // fewer than the others have, if it can't have as many
	Early  int       `json:"early"` // expired too early, in the worst turn
	Lost   int       `json:"lost"`  // never expired, in the worst turn
	Failed string    `json:"failed,omitempty"`
}

func newReport(c *config, contests []*contest) *report {
	r := &report{Machine: machine.Here("github.com/RussellLuo/timingwheel"), Quick: c.quick}
	byName := map[string]*row{}
	for _, ct := range contests {
		for _, m := range ct.work.measures {
			if byName[m.name] == nil {
				byName[m.name] = &row{Measure: m.name, Unit: m.unit, What: m.title, Conns: ct.work.conns, Figures: map[string]figure{}}
				r.Rows = append(r.Rows, byName[m.name])
			}
			byName[m.name].Figures[ct.kind.Name] = ct.figure(m)
		}
	}
	return r
}

// figure sums up the turns.
func (ct *contest) figure(m measure) figure {
	f := figure{Conns: ct.conns}
	for _, o := range ct.outcomes {
		if v, ok := o.Values[m.name]; ok {
			f.Turns = append(f.Turns, v)
		}
		f.Early, f.Lost = max(f.Early, o.Early), max(f.Lost, o.Lost)
	}
	f.Median = stats.Median(f.Turns)
	if ct.failed != nil {
		f.Failed = ct.failed.Error()
	}
	return f
}

func (r *report) Status() int { return program.Pass }

func (r *report) Table(w io.Writer) {
	columns := []string{"", "unit"}
	fmt.Fprintln(w, r.Machine)
	for _, k := range contender.All() {
		fmt.Fprintf(w, "  %s: %s\n", k.Name, k.What)
		columns = append(columns, k.Name)
	}
	rows := [][]string{columns}
	var remarks []string
	for _, row := range r.Rows {
		cells := []string{row.What, row.Unit}
		for _, name := range columns[2:] {
			f, ok := row.Figures[name]
			switch {
			case !ok:
				cells = append(cells, "-")
				continue
			case len(f.Turns) == 0:
				cells = append(cells, "?")
				remarks = append(remarks, fmt.Sprintf("%s: %s has no figure: %s", row.What, name, f.Failed))
				continue
			}
			cells = append(cells, table.Figure(f.Median))
			if f.Early+f.Lost > 0 {
				cells[len(cells)-1] += "!"
				remarks = append(remarks, fmt.Sprintf("%s: %s has expired %s too early, and %s never", row.What, name, table.Group(f.Early), table.Group(f.Lost)))
			}
		}
		rows = append(rows, cells)
	}
	table.Write(w, "Medians; less is better everywhere", rows...)
	fmt.Fprintln(w, strings.Join(remarks, "\n"))
}
