package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/perf/benchmath"
)

// A row is what came out for a measure and a contender.
type row struct {
	Workload  string   `json:"workload"` // the name of the measure
	Contender string   `json:"contender"`
	Unit      string   `json:"unit"`
	Conns     int      `json:"conns"`
	N         int      `json:"n"` // turns
	Median    *float64 `json:"median"`
	Min       *float64 `json:"min"`
	Max       *float64 `json:"max"`

	// RatioToBest is that of the medians. The best is the least one of those
	// who kept their word, and who did not has no ratio. A lateness is worth no
	// less than leastLate, else the ratio would be one of noise.
	RatioToBest *float64 `json:"ratio_to_best"`

	// P is the probability of the difference to the best, or of a greater one,
	// if there were none in truth (Mann-Whitney). Confident says that it is
	// below benchstat's threshold.
	P         *float64 `json:"p,omitempty"`
	Confident bool     `json:"confident"`

	Early   int    `json:"early"` // expired too early, in the worst turn
	Lost    int    `json:"lost"`  // never expired, in the worst turn
	Note    string `json:"note,omitempty"`
	Skipped string `json:"skipped,omitempty"` // why there are no figures

	sample *benchmath.Sample
	title  string
	best   bool
}

// honest reports whether the contender did what it had to.
func (r *row) honest() bool { return r.Early == 0 && r.Lost == 0 }

// rows returns the rows of contests, measure by measure and the best first.
func rows(contests []*contest) (all []*row) {
	for i, ct := range contests {
		if i > 0 && contests[i-1].work.name == ct.work.name {
			continue
		}
		for _, m := range ct.work.measures {
			var group []*row
			for _, other := range contests[i:] {
				if other.work.name == ct.work.name {
					group = append(group, newRow(other, m))
				}
			}
			rank(group)
			all = append(all, group...)
		}
	}
	return all
}

// newRow summarizes what the turns of a contest have for a measure.
func newRow(ct *contest, m measure) *row {
	r := &row{
		Workload: m.name, Contender: ct.kind.Name, Unit: m.unit, Conns: ct.conns, Note: ct.note, title: m.title,
		Skipped: cmp.Or(ct.skipped, "the run ended before its turn"),
	}
	var values []float64
	for _, o := range ct.outcomes {
		r.Early, r.Lost = max(r.Early, o.Early), max(r.Lost, o.Lost)
		r.Note = strings.Trim(o.Note+"; "+ct.note, "; ")
		if v, ok := o.Values[m.name]; ok {
			values = append(values, v)
		} else {
			r.Skipped = o.Missing
		}
	}
	switch {
	case ct.failed != nil:
		r.Skipped = "failed: " + ct.failed.Error()
	case len(values) > 0:
		r.Skipped = ""
		r.summarize(values)
	}
	return r
}

func (r *row) summarize(values []float64) {
	thresholds := benchmath.DefaultThresholds
	r.sample = benchmath.NewSample(values, &thresholds)
	r.N = len(values)
	center := benchmath.AssumeNothing.Summary(r.sample, 0.95).Center
	r.Median, r.Min, r.Max = &center, &r.sample.Values[0], &r.sample.Values[len(values)-1]
}

// leastLate is the lateness, in ms, below which one is as good as another, as
// none of them is known better than that.
const leastLate = 0.1

// rank sorts the rows of a measure: those who kept their word, those who did not,
// and those without a figure. It compares the first with the best.
func rank(group []*row) {
	slices.SortStableFunc(group, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.class(), b.class()), cmp.Compare(a.value(), b.value()))
	})
	best := group[0]
	for _, r := range group {
		if r.class() == 0 {
			r.best = r == best
			r.compare(best)
		}
	}
}

func (r *row) class() int {
	switch {
	case r.Median == nil:
		return 2
	case !r.honest():
		return 1
	}
	return 0
}

func (r *row) value() float64 {
	if r.Median == nil {
		return math.Inf(1)
	}
	return *r.Median
}

func (r *row) compare(best *row) {
	least := 0.0
	if strings.Contains(r.Workload, "-late-") {
		least = leastLate
	}
	if floor := max(*best.Median, least); floor > 0 {
		ratio := max(*r.Median, least) / floor
		r.RatioToBest = &ratio
	}
	if r.best {
		return
	}
	c := benchmath.AssumeNothing.Compare(best.sample, r.sample)
	if len(c.Warnings) == 0 {
		r.P = &c.P
	}
	r.Confident = len(c.Warnings) == 0 && c.P < c.Alpha
}

// confidence says how sure it is that the row is different from the best.
func (r *row) confidence() string {
	switch {
	case r.best:
		return "best"
	case !r.honest():
		return "broke its word"
	case r.P == nil:
		return fmt.Sprintf("n=%d", r.N)
	case !r.Confident:
		return fmt.Sprintf("~ p=%.3f n=%d", *r.P, r.N)
	}
	return fmt.Sprintf("p=%.3f n=%d", *r.P, r.N)
}
