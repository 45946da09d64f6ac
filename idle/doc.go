// Package idle tracks connections and times out those that are stale: idle,
// not reading, not writing, too old, too slow, or not answering heartbeats.
//
// An activity costs about a nanosecond: it notes the coarse time in the
// connection if that has changed. No timer is moved. When the place of the
// connection in the timing wheel comes up, its deadline is worked out from its
// notes, and unless it has passed the connection gets a new place. So a
// connection is looked at a few times per timeout at most, however busy it is.
//
// No connection is timed out before its limit has passed. The timeout comes at most
// 1⅛ ticks later; [Policy] lists the limits that take longer. What [Options.Budget]
// defers comes on top. Time during which the process did not run is no fault of a
// peer: it is given a moment to catch up, and adapters are asked for unread input.
//
// Everything runs inside a testing/synctest bubble as well, in virtual time.
//
// # For authors of servers
//
// A server takes an adapter, which gives its connections their timeouts:
// adapters/idlenet for a net.Listener or a net.Conn, adapters/idlegnet,
// adapters/idlehttp or adapters/idlefasthttp. Of this package it needs
//
//   - [Policy], with [Heartbeat] and [Rate]: what is limited;
//   - [TimeoutError] and [Reason]: what was passed;
//   - [Options]: the tick, and what else few set;
//   - [Tracker], which each adapter hands out: [Tracker.Stats], [Tracker.Phase] for
//     other policies that a connection can enter, [Tracker.Close], [Tracker.Retire].
//
// # For authors of adapters
//
// An adapter embeds a [Conn] in its connections, tracks it with [Tracker.Track] and
// reports to it what it sees: bytes ([Conn.Received], [Conn.Sent], or [Conn.Touch] if
// they need not be counted), and when a read or a write begins and ends to wait
// ([Conn.AwaitRead], [Conn.PauseRead], [Conn.AwaitWrite], [Conn.PauseWrite]). What the
// tracker has to ask or to tell it calls by [Hooks], one value for all connections.
// [Evidence] is what a connection may know beyond its reports. An event loop has a
// [Shard] of its own, on which nothing is locked: [Tracker.NewShard].
package idle
