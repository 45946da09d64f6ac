package idleprom

import (
	"cmp"
	"context"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idlewheel/idlewheel/adapters/internal/census"
	"github.com/idlewheel/idlewheel/idle"
)

// A source makes the metrics of one tracker.
type source struct {
	tracker *idle.Tracker
	descs   [numFamilies]*prometheus.Desc
	phases  names
	causes  names
	census  *census.Cache // nil if none is to be taken
	late    atomic.Uint64 // scrapes that used an older census, or none
}

// An output takes the metrics of a source.
type output struct {
	descs *[numFamilies]*prometheus.Desc
	ch    chan<- prometheus.Metric
}

// put writes a number. New and names make sure that the labels are valid.
func (o output) put(f family, value float64, labels ...string) {
	o.ch <- prometheus.MustNewConstMetric(o.descs[f], families[f].kind, value, labels...)
}

// collect writes all metrics.
func (s *source) collect(ch chan<- prometheus.Metric) {
	o := output{&s.descs, ch}
	var last *census.Census
	if s.census != nil {
		var err error
		if last, err = s.census.Get(context.Background()); err == census.ErrLate {
			s.late.Add(1)
		}
		o.put(censusLate, float64(s.late.Load()))
	}
	st := s.tracker.Stats()
	s.phases.admit(keys(st.ByPhase))
	if last != nil {
		s.putCensus(o, last)
	}
	s.putEnds(o, &st)
	putCounts(o, &st)
	if c, ok := s.tracker.Capacity(); ok && c.MaxConns > 0 {
		o.put(most, float64(c.MaxConns))
	}
	left := 0
	if d := s.tracker.Draining(); d != nil {
		left = d.Left()
	}
	o.put(draining, float64(left))
}

// putCounts writes what needs no label.
func putCounts(o output, st *idle.Stats) {
	for f, n := range map[family]uint64{
		connections: st.Live, tracked: st.Tracked, closed: st.Closed, refused: st.Refused,
		pings: st.Pings, missed: st.Misses, extended: st.Extended, deferred: st.Deferred,
		panics: st.Panics, checks: st.Checks, reschedules: st.EarlyReschedules, endsLost: st.EndsLost,
	} {
		o.put(f, float64(n))
	}
	o.put(passTime, st.PassTotal.Seconds())
	o.put(longest, st.Longest.Seconds())
	o.put(behind, st.BacklogAge.Seconds())
	o.putHistogram(lifetime, &st.Lifetime, span)
	o.putHistogram(lateness, &st.Lateness, delay)
}

// putCensus writes what a census has found. Phases that have had connections are still written,
// with 0.
func (s *source) putCensus(o output, c *census.Census) {
	s.phases.admit(keys(c.Phases))
	in := map[string]int{}
	for name, p := range c.Phases {
		in[s.phases.label(name)] += p.Live
	}
	for _, label := range s.phases.all() {
		o.put(phaseConnections, float64(in[label]), label)
	}
	for i, within := range census.Within {
		o.put(endingConnections, float64(c.Ending[i]), strconv.Itoa(int(within.Seconds())))
	}
	o.put(unsent, float64(c.Unsent))
	o.put(unsentConnections, float64(c.WithUnsent))
	o.put(censusTime, float64(c.At.UnixMilli())/1e3)
	o.put(censusTook, c.Took.Seconds())
}

// putEnds writes how many connections were ended, and why. A limit has the name that its user has set.
func (s *source) putEnds(o output, st *idle.Stats) {
	type series struct{ phase, reason string }
	in, all := map[series]uint64{}, map[string]uint64{}
	for name, reasons := range st.ByPhase {
		label := s.phases.label(name)
		for r, n := range reasons {
			reason := cmp.Or(s.tracker.Setting(name, r), r.String())
			in[series{label, reason}] += n
			all[reason] += n
		}
	}
	for reason, n := range all {
		o.put(ended, float64(n), reason)
	}
	for of, n := range in {
		o.put(phaseEnded, float64(n), of.phase, of.reason)
	}
	s.causes.admit(keys(st.Causes))
	of := map[string]uint64{}
	for cause, n := range st.Causes {
		of[s.causes.label(cause)] += n
	}
	for cause, n := range of {
		o.put(shed, float64(n), cause)
	}
}
