// Package idle tracks connections and times out those that are stale: idle,
// not reading, not writing, too old, too slow, or not answering heartbeats.
//
// A [Tracker] is made from a [Policy]. Every connection has a [Conn], to which
// it reports its activities, and an [Owner], which is told when it has timed
// out. Package adapters/idlenet does this for net.Conn; most users need no more
// than New and that.
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
// peer: it is given a moment to catch up, and an owner that is a [Prober] is asked
// for unread input.
//
// Everything runs inside a testing/synctest bubble as well, in virtual time.
package idle
