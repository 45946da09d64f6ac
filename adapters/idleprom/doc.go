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
//	idlewheel_unsent_bytes                     bytes that wait for peers while a write waits; see [idle.Info.Unsent] (*)
//	idlewheel_unsent_connections               connections with such bytes (*)
//	idlewheel_connections_tracked_total        all so far
//	idlewheel_connections_closed_total         those that clients or your program have closed
//	idlewheel_connections_ended_total{reason}  those that the tracker has ended
//	idlewheel_phase_connections_ended_total{phase,reason}
//	idlewheel_connections_shed_total{cause}    those with the reason "shed", by the cause that was given
//	idlewheel_connection_lifetime_seconds      how long those that have ended were tracked
//
// The reason is the limit's name as it was set, such as KeepAliveTimeout of an HTTP adapter, or a field of
// [idle.Policy]. Three reasons are no limits: "evict", for connections that were ended to make room, "drain", and
// "shed", for those that were ended one by one, such as by Conn.End. The initial phase of a Policy
// without a Name is "(unnamed)".
//
// # Timeouts
//
//	idlewheel_timeout_lateness_seconds         how late the timeouts were
//	idlewheel_timeouts_deferred_total          timeouts that came at least a tick late
//	idlewheel_timeouts_extended_total          timeouts after which OnTimeout kept the connection
//	idlewheel_pings_total                      pings that were sent
//	idlewheel_pings_missed_total               pings that were not answered in time
//	idlewheel_callback_panics_total            panics in callbacks
//	idlewheel_end_reports_lost_total           ends that were not reported, because idle.Options.OnEnds was too slow
//
// # Capacity and drains
//
//	idlewheel_connections_max                  MaxConns of the tracker's Capacity; absent if it is 0
//	idlewheel_connections_refused_total        newcomers that were refused for lack of room
//	idlewheel_draining_connections             live connections while a drain is under way; 0 otherwise
//
// # Work of the tracker
//
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
// The metrics with (*) come from a census, which visits all connections ([idle.Tracker.Visit]). A scrape
// takes one, unless the last one began less than a second ago. Scrapes that come meanwhile share it.
// If a census isn't finished after a second, for example because an event loop is blocked, it goes
// on. The scrape then counts as late, and has the values of the last census that finished. When a
// tracker is closed, these metrics disappear. All others remain.
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
package idleprom
