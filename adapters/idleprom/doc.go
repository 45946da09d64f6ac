// Package idleprom shows trackers to Prometheus. A [Collector] is registered like any
// other:
//
//	metrics, err := idleprom.New(map[string]*idle.Tracker{"mqtt": ln.Tracker()}, nil)
//	if err != nil {
//		return err
//	}
//	prometheus.MustRegister(metrics)
//
// All metrics have the label tracker. They are computed when they are scraped, and cost nothing
// in between. For OpenTelemetry, use the bridge go.opentelemetry.io/contrib/bridges/prometheus.
// The directory examples/observability has alert rules and a dashboard, and docs/operations.md
// says what to do when one fires.
//
// # Connections
//
//	idlewheel_connections                      live connections
//	idlewheel_phase_connections{phase}         those in a phase (*)
//	idlewheel_ending_connections{within}       those that end within 1, 10 and 60 s if nothing moves (*)
//	idlewheel_unsent_bytes                     bytes that wait for peers; see [idle.Census] (*)
//	idlewheel_unsent_connections               connections with such bytes (*)
//	idlewheel_connections_tracked_total        all so far, each once
//	idlewheel_connections_adopted_total        those that have come from another tracker, or back to this one
//	idlewheel_connections_released_total       all that have left the tracker and stayed open; adoption doesn't lower it
//	idlewheel_connections_closed_total         those that their owners have closed, or that were handed back
//	idlewheel_connections_ended_total{reason}  those that the tracker has ended, for each of [idle.Reasons]
//	idlewheel_phase_connections_ended_total{phase,reason,setting}
//	idlewheel_connections_shed_total{cause}    those with the reason "shed", by the cause that was given
//	idlewheel_connection_lifetime_seconds      how long those that have ended were tracked
//	idlewheel_connection_idle_at_end_seconds   how long before its end a connection had its last activity
//
// The reasons include "evict", for connections that were ended to make room, "drain", and "shed".
// The setting is the limit's name as it was configured, such as KeepAliveTimeout of an HTTP
// adapter, or a field of [idle.Policy]. The initial phase of a Policy without a Name is
// "(unnamed)".
//
// # Timeouts
//
//	idlewheel_timeout_lateness_seconds         how long after they were due the timeouts came
//	idlewheel_timeouts_deferred_total          timeouts that came at least a tick late
//	idlewheel_timeouts_extended_total          timeouts after which OnTimeout kept the connection
//	idlewheel_pings_total                      pings that were sent
//	idlewheel_pings_missed_total               pings that were not answered in time
//	idlewheel_callback_panics_total            panics in callbacks
//	idlewheel_end_reports_lost_total           ends that were not reported, because Options.OnEnds was too slow
//
// # Capacity and pressure
//
//	idlewheel_connections_max                  MaxConns of the tracker's Capacity; absent if it is 0
//	idlewheel_connections_refused_total{limit} connections that were not tracked; limit is "full", "key", "rate" or "handshake"
//	idlewheel_pressure_ratio                   the pressure that the limits follow, from 0 to 1; absent without Options.Pressure
//	idlewheel_pressure_read_failures_total     readings of the pressure that have failed; absent too
//
// # Drain and shed
//
//	idlewheel_operations{operation,state}              those under way; state is "running" or "paused"
//	idlewheel_operation_connections{operation,state}   the connections that they have met
//	idlewheel_operation_expected_seconds{operation}    until the last connection has its turn
//
// The operation is "drain" or "shed". A connection is "waiting" for its turn, was "told" to
// finish, is "in_use" until it falls idle, was "ended" by the operation, or is "gone" because it
// ended otherwise. All are 0 while there is no operation.
//
// # Work of the tracker
//
//	idlewheel_pass_duration_seconds            how long the passes over a shard took
//	idlewheel_pass_seconds_total               total time of all passes
//	idlewheel_pass_longest_seconds             duration of the longest pass so far
//	idlewheel_backlog_age_seconds              how long the oldest deferred connection has been waiting
//	idlewheel_checks_total                     checks of a connection because its slot of the wheel came up
//	idlewheel_early_reschedules_total          moves to an earlier slot, because a deadline was brought forward
//
// # The census
//
//	idlewheel_census_timestamp_seconds         when the census that the scrape used began (*)
//	idlewheel_census_duration_seconds          how long that took (*)
//	idlewheel_census_late_total                scrapes that have used an older census, or none
//
// The metrics with (*) come from a census, which visits all connections. A scrape takes one,
// unless the last one began less than a second ago. Scrapes that come meanwhile share it. It
// takes about a quarter of a microsecond per connection. If it isn't finished within
// Options.CensusTimeout, the scrape gets the values of the last census that finished, and counts
// as late. A second after a tracker was closed these metrics disappear, because there is no
// census any more. All others remain.
//
// # Histograms
//
// Each histogram has classic buckets and native ones. The native ones have schema 0: their
// bounds are seconds divided or multiplied by powers of 2, as in [idle.Histogram]. The classic buckets
// are all of these or every second one, in the range that matters.
//
// # How many series there are
//
// No label has a value that a peer can choose, such as an address. Names of phases and
// causes become valid UTF-8 of at most 128 bytes. After the first 100 phases and the first
// 50 causes, others are counted together as "(others)". A tracker has about 130 series,
// and 13 for each phase.
//
// # HTTP
//
// The Tracker of an HTTP adapter's listener has all its connections, each as one. Streams of
// HTTP/2 have a tracker of their own. Its metrics show, for example, how many streams BodyRate
// has reset:
//
//	idleprom.New(map[string]*idle.Tracker{"web": ln.Tracker(), "web streams": ln.StreamTracker()}, nil)
//
// A hijacked connection without limits counts as released. If Watch gives it limits, it counts as
// adopted too. So tracked, closed and ended, summed over all trackers, count each connection once.
package idleprom
