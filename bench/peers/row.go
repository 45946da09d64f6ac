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
func rows(contests []*contest) []*row {
	var all []*row
	for len(contests) > 0 {
		n := 1
		for n < len(contests) && contests[n].work.name == contests[0].work.name {
			n++
		}
		for _, m := range contests[0].work.measures {
			var group []*row
			for _, ct := range contests[:n] {
				group = append(group, newRow(ct, m))
			}
			rank(group)
			all = append(all, group...)
		}
		contests = contests[n:]
	}
	return all
}

// newRow summarizes what the turns of a contest have for a measure.
func newRow(ct *contest, m measure) *row {
	r := &row{
		Workload: m.name, Contender: ct.kind.Name, Unit: m.unit, Conns: ct.conns, title: m.title,
		Skipped: ct.skipped,
	}
	var values []float64
	var notes []string
	for _, o := range ct.outcomes {
		r.Early, r.Lost = max(r.Early, o.Early), max(r.Lost, o.Lost)
		if o.Note != "" {
			notes = []string{o.Note}
		}
		if v, ok := o.Values[m.name]; ok {
			values = append(values, v)
		} else {
			r.Skipped = cmp.Or(o.Missing[m.name], o.Missing[""], "no figure")
		}
	}
	if !ct.begun() {
		r.Skipped = cmp.Or(r.Skipped, "the run ended before its turn")
	}
	if ct.failed != nil {
		r.Skipped = "failed: " + ct.failed.Error()
	}
	if ct.note != "" {
		notes = append(notes, ct.note)
	}
	r.Note = strings.Join(notes, "; ")
	if len(values) > 0 && ct.failed == nil {
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

// rank sorts the rows of a measure, and compares all of them to the best.
func rank(group []*row) {
	slices.SortStableFunc(group, func(a, b *row) int {
		return cmp.Or(cmp.Compare(class(a), class(b)), cmp.Compare(value(a), value(b)))
	})
	best := group[0]
	if class(best) != classHonest {
		return
	}
	best.best = true
	for _, r := range group {
		if class(r) == classHonest {
			r.compare(best)
		}
	}
}

// The classes into which the rows of a measure fall.
const (
	classHonest = iota
	classFaulty
	classSkipped
)

func class(r *row) int {
	switch {
	case r.Median == nil:
		return classSkipped
	case !r.honest():
		return classFaulty
	}
	return classHonest
}

func value(r *row) float64 {
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
	if r == best {
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
