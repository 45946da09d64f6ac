package idleprom

import "github.com/prometheus/client_golang/prometheus"

// A family is a metric with all its label values.
type family int

const (
	connections family = iota
	phaseConnections
	endingConnections
	unsent
	unsentConnections
	tracked
	closed
	ended
	phaseEnded
	shed
	refused
	most
	draining
	pings
	missed
	extended
	deferred
	panics
	lifetime
	lateness
	passTime
	longest
	behind
	checks
	reschedules
	endsLost
	censusTime
	censusTook
	censusLate
	numFamilies
)

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// families describes all metrics. Those without a kind are histograms.
var families = [numFamilies]struct {
	kind       prometheus.ValueType
	name, help string
	labels     []string
}{
	connections:       {gauge, "connections", "Live connections.", nil},
	phaseConnections:  {gauge, "phase_connections", "Live connections in each phase, from the census.", []string{"phase"}},
	endingConnections: {gauge, "ending_connections", "Live connections that end within this many seconds if nothing moves, from the census.", []string{"within"}},
	unsent:            {gauge, "unsent_bytes", "Bytes that wait for peers on connections whose server waits to write, from the census.", nil},
	unsentConnections: {gauge, "unsent_connections", "Live connections with unsent bytes, from the census.", nil},
	tracked:           {counter, "connections_tracked_total", "Connections that have been tracked.", nil},
	closed:            {counter, "connections_closed_total", "Connections that their owners have closed.", nil},
	ended:             {counter, "connections_ended_total", "Connections that the tracker has ended, by reason: the limit that was set, or drain, shed or evict.", []string{"reason"}},
	phaseEnded:        {counter, "phase_connections_ended_total", "Connections that the tracker has ended, by the phase they were in and by reason.", []string{"phase", "reason"}},
	shed:              {counter, "connections_shed_total", "Connections that were ended one by one, by the cause that was given.", []string{"cause"}},
	refused:           {counter, "connections_refused_total", "Connections that were not tracked because of the capacity.", nil},
	most:              {gauge, "connections_max", "How many connections there may be. Absent if there is no such limit.", nil},
	draining:          {gauge, "draining_connections", "Live connections while a drain is under way, and 0 otherwise.", nil},
	pings:             {counter, "pings_total", "Pings that were sent.", nil},
	missed:            {counter, "pings_missed_total", "Pings that were not answered in time.", nil},
	extended:          {counter, "timeouts_extended_total", "Timeouts after which OnTimeout kept the connection.", nil},
	deferred:          {counter, "timeouts_deferred_total", "Timeouts that came at least a tick late.", nil},
	panics:            {counter, "callback_panics_total", "Panics in callbacks.", nil},
	lifetime:          {0, "connection_lifetime_seconds", "How long the connections that have ended were tracked.", nil},
	lateness:          {0, "timeout_lateness_seconds", "How long after they were due the timeouts came.", nil},
	passTime:          {counter, "pass_seconds_total", "Total time of all passes.", nil},
	longest:           {gauge, "pass_longest_seconds", "Duration of the longest pass so far.", nil},
	behind:            {gauge, "backlog_age_seconds", "How long the oldest deferred connection has been waiting.", nil},
	checks:            {counter, "checks_total", "Checks of a connection because its slot of the wheel came up.", nil},
	reschedules:       {counter, "early_reschedules_total", "Moves of a connection to an earlier slot, because its deadline was brought forward.", nil},
	endsLost:          {counter, "end_reports_lost_total", "Ends that were not reported, because Options.OnEnds was too slow.", nil},
	censusTime:        {gauge, "census_timestamp_seconds", "When the census of this scrape began.", nil},
	censusTook:        {gauge, "census_duration_seconds", "How long the census of this scrape took.", nil},
	censusLate:        {counter, "census_late_total", "Scrapes that used an older census or none, because a new one was not finished in time.", nil},
}

// describe returns the descriptions of all families for the tracker with a name.
func describe(tracker string) (descs [numFamilies]*prometheus.Desc) {
	for i, f := range families {
		descs[i] = prometheus.NewDesc("idlewheel_"+f.name, f.help, f.labels, prometheus.Labels{"tracker": tracker})
	}
	return descs
}
