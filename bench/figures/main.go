// Command figures writes the figures of README.md, bench/README.md and docs/operations.md, from the
// results in bench/results. The templates in its folder pages have the text around the figures.
//
//	go -C bench run ./figures           # the pages, from the results that there are
//	go -C bench run ./figures -remake   # the results first, which takes 20 to 25 minutes
//	go -C bench run ./figures -restarts # the results of restart first, which takes 2 minutes
//
// Its tests fail if a page differs from the results. With -release, they also fail if a row was
// measured fewer than three times, or if the results are older than what they measure: more than a
// tenth of the declarations in the measured packages have changed since, apart from comments.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/idlewheel/idlewheel/bench/internal/program"
)

func main() { newProgram(&config{}).Main() }

type config struct {
	remake, restarts, quick bool
	results                 string
}

func newProgram(c *config) *program.Program[*report] {
	return &program.Program[*report]{
		Name: "figures",
		Does: "Figures writes the figures of README.md, bench/README.md and docs/operations.md, from the results in bench/results.",
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&c.remake, "remake", false, "measure everything again first, which takes 20 to 25 minutes; do nothing else on the machine")
			fs.BoolVar(&c.restarts, "restarts", false, "measure only the rolling restarts again first, which takes 2 minutes")
			fs.BoolVar(&c.quick, "quick", false, "with -remake or -restarts: small measurements, which only show that it works; give -results as well")
			fs.StringVar(&c.results, "results", "results", "the `folder` with the results")
		},
		Check: c.check,
		Begin: func() string { return "figures: " + c.does() + "\n" },
		Run:   func(ctx context.Context, stderr io.Writer) (*report, error) { return c.run(ctx, stderr) },
	}
}

func (c *config) check() error {
	if c.remake && c.restarts {
		return errors.New("-restarts is true; -remake measures them too")
	}
	if c.quick && (!c.remake && !c.restarts || c.results == "results") {
		return fmt.Errorf("-quick is true; it needs -remake or -restarts, and a -results of its own, such as a folder in %s", os.TempDir())
	}
	return nil
}

func (c *config) does() string {
	switch {
	case c.quick:
		return "making small results, and no pages"
	case c.remake:
		return "making all results again, in 20 to 25 minutes, and then the pages"
	case c.restarts:
		return "making the results of restart again, in 2 minutes, and then the pages"
	}
	return "making the pages from the results in " + c.results
}

func (c *config) run(ctx context.Context, stderr io.Writer) (*report, error) {
	if c.remake || c.restarts {
		if err := remake(ctx, c.results, c.restarts, c.quick, stderr); err != nil {
			return nil, err
		}
	}
	if c.quick {
		return new(report), nil // small results don't have all rows
	}
	r, err := load(c.results)
	if err != nil {
		return nil, err
	}
	out := new(report)
	if out.Stale, err = stale(ctx, r.measured); err != nil {
		return nil, err
	}
	for _, p := range pages {
		old, now, err := p.render(r)
		if err != nil {
			return nil, err
		}
		if old == now {
			continue
		}
		out.Changed = append(out.Changed, p.path)
		if err := os.WriteFile(p.file(), []byte(now), 0o644); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// A report says what a run has done.
type report struct {
	Changed []string `json:"changed"` // pages
	Stale   share    `json:"stale"`
}

func (r *report) Table(w io.Writer) {
	fmt.Fprintf(w, "pages that changed: %v\n", r.Changed)
	fmt.Fprintf(w, "of %d measured declarations, %d have changed since the results were made\n", r.Stale.Of, r.Stale.Changed)
}

func (r *report) Status() int { return program.Pass }
