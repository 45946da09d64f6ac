package idleprom

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

// A source makes the metrics of one tracker.
type source struct {
	tracker *idle.Tracker
	descs   [numFamilies]*prometheus.Desc
	phases  names
	causes  names
	census  *census // nil if none is to be taken
	follows func() *pressure.Follower
}

func newSource(name string, t *idle.Tracker, o Options) *source {
	s := &source{tracker: t, descs: describe(name), phases: names{most: 100}, causes: names{most: 50}}
	s.follows = func() *pressure.Follower {
		if o.Pressure == nil {
			return nil
		}
		return o.Pressure(name)
	}
	if !o.NoCensus {
		s.census = &census{tracker: t, timeout: o.CensusTimeout}
	}
	return s
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
	var last *idle.Census
	if s.census != nil {
		var late uint64
		last, late = s.census.take()
		o.put(censusLate, float64(late))
	}
	st := s.tracker.Stats()
	s.phases.admit(keys(st.ByPhase))
	if last != nil {
		s.putCensus(o, last)
	}
	s.putEnds(o, &st)
	s.putOperations(o)
	putCounts(o, &st)
	if f := s.follows(); f != nil {
		o.put(pressureRatio, f.Pressure())
		o.put(pressureFailures, float64(f.Failures()))
	}
	if c, ok := s.tracker.Capacity(); ok && c.MaxConns > 0 {
		o.put(most, float64(c.MaxConns))
	}
}

// putCounts writes what needs no label.
func putCounts(o output, st *idle.Stats) {
	for f, n := range map[family]uint64{
		connections: st.Live, tracked: st.Tracked, adopted: st.Adopted, released: st.Released, closed: st.Closed,
		pings: st.Pings, missed: st.Misses, extended: st.Extended, deferred: st.Deferred,
		panics: st.Panics, checks: st.Checks, reschedules: st.EarlyReschedules, endsLost: st.EndsLost,
	} {
		o.put(f, float64(n))
	}
	for limit, n := range map[string]uint64{
		"full": st.Refused - st.RefusedKey - st.RefusedRate - st.RefusedHandshake,
		"key":  st.RefusedKey, "rate": st.RefusedRate, "handshake": st.RefusedHandshake,
	} {
		o.put(refused, float64(n), limit)
	}
	o.put(passTime, st.PassTotal.Seconds())
	o.put(longest, st.Longest.Seconds())
	o.put(behind, st.BacklogAge.Seconds())
	o.putHistogram(lifetime, &st.Lifetime, span)
	o.putHistogram(idleAtEnd, &st.Idle, span)
	o.putHistogram(lateness, &st.Lateness, delay)
	o.putHistogram(passes, &st.PassTime, work)
}

// forecasts are the times within which ending connections are counted.
var forecasts = [...]time.Duration{time.Second, 10 * time.Second, time.Minute}

// putCensus writes what a census has found. Phases that have had connections are still written,
// with 0.
func (s *source) putCensus(o output, c *idle.Census) {
	s.phases.admit(keys(c.Phases))
	in := map[string]int{}
	for name, p := range c.Phases {
		in[s.phases.label(name)] += p.Live
	}
	for _, label := range s.phases.all() {
		o.put(phaseConnections, float64(in[label]), label)
	}
	for _, within := range forecasts {
		o.put(endingConnections, float64(c.Ending(within)), strconv.Itoa(int(within.Seconds())))
	}
	o.put(unsent, float64(c.Unsent))
	o.put(unsentConnections, float64(c.WithUnsent))
	o.put(censusTime, float64(c.At.UnixMilli())/1e3)
	o.put(censusTook, c.Took.Seconds())
}

// putEnds writes how many connections were ended, and why.
func (s *source) putEnds(o output, st *idle.Stats) {
	in, nameOf := map[string]map[idle.Reason]uint64{}, map[string]string{}
	for _, name := range keys(st.ByPhase) {
		label, reasons := s.phases.label(name), st.ByPhase[name]
		nameOf[label] = name
		if in[label] == nil {
			in[label] = map[idle.Reason]uint64{}
		}
		for r, n := range reasons {
			in[label][r] += n
		}
	}
	labels := s.phases.all()
	for r, n := range st.ByReason() {
		o.put(ended, float64(n), r.String())
		for _, label := range labels {
			o.put(phaseEnded, float64(in[label][r]), label, r.String(), s.tracker.Setting(nameOf[label], r))
		}
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

// putOperations writes how far the operations under way have come, added up by kind. Without
// operations it writes zeros.
func (s *source) putOperations(o output) {
	type sum struct {
		running, paused int
		idle.Progress
	}
	sums := map[idle.Reason]*sum{idle.ReasonDrain: {}, idle.ReasonShed: {}}
	for _, op := range s.tracker.Operations() {
		all, p := sums[op.Reason()], op.Progress()
		if p.Paused {
			all.paused++
		} else {
			all.running++
		}
		all.Ended += p.Ended
		all.Gone += p.Gone
		all.Left += p.Left
		all.Told += p.Told
		all.InUse += p.InUse
		all.Expected = max(all.Expected, p.Expected)
	}
	for r, all := range sums {
		kind := r.String()
		o.put(operations, float64(all.running), kind, "running")
		o.put(operations, float64(all.paused), kind, "paused")
		o.put(operationExpected, all.Expected.Seconds(), kind)
		for state, n := range map[string]int{
			"ended": all.Ended, "gone": all.Gone, "told": all.Told, "in_use": all.InUse,
			"waiting": max(all.Left-all.Told-all.InUse, 0),
		} {
			o.put(operationConnections, float64(n), kind, state)
		}
	}
}
