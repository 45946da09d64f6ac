package idle

import "time"

// Owner is the connection proper, of which a [Conn] is the state. Besides
// Expire it may implement [Pinger], [Keeper], [Parter], [Waiter], [Prober],
// [Drainer], [Reaper] and [Unwrapper].
//
// On a loop-driven [Shard] all of these are called on the loop. Otherwise Ping,
// Keep, Part, Drain and Reap, which may block, get a goroutine each; Expire,
// Waiting and Probe are called by the driver and must not block. A panic in any of them is
// logged and counted, and harms no other connection.
type Owner interface {
	// Expire is called once, when the connection has timed out. It is to
	// disturb whoever reads or writes, and may close the connection.
	Expire(err *TimeoutError)
}

// Pinger is an Owner that can ask its peer for a sign of life; an active
// [Heartbeat] requires it. A Ping that fails or blocks is followed by a miss
// like one that stays unanswered, and while it blocks there is no second one.
type Pinger interface{ Ping() error }

// Keeper is an Owner that is asked before it is timed out. If Keep returns
// true, the limit named in err begins anew. Until it returns no limit of the
// connection is looked at, the one of writing included. Activity meanwhile
// averts the timeout, so an owner that writes a farewell should not report it.
type Keeper interface {
	Keep(err *TimeoutError) bool
}

// Parter is an Owner that has something to tell its peer when the connection has
// timed out. Part is called then, once, and Expire when it has returned. What it
// writes wants a deadline, as no limit ends it any more.
type Parter interface{ Part(err *TimeoutError) }

// Waiter is an Owner that can tell whether a read, or a write, is waiting at
// this moment. It calls [Conn.BeginRead] and [Conn.BeginWrite], but spares
// itself the calls at their ends: it is asked when a wait would have lasted too
// long.
type Waiter interface {
	Waiting() (read, write bool)
}

// Prober is an Owner that can find out more about its connection than it has
// reported, usually from the kernel. It is asked before the connection is
// timed out, but for its age or the phase's.
type Prober interface{ Probe() Pulse }

// Pulse is what a [Prober] found out. The zero Pulse is that nothing is known.
type Pulse struct {
	// In and Out say that bytes arrived, or went out, that long ago; not known
	// when 0. Bytes go out when they are sent for the first time, and once more,
	// if others still wait, when the peer acknowledges them. Drained says that
	// nothing waits to go out.
	In, Out time.Duration
	Drained bool

	// Doubt says that bytes may have gone out that long ago unseen, if more came
	// to wait at the same time; 0 if not. It puts off WriteTimeout only, as
	// IdleTimeout has been told of those that came.
	Doubt time.Duration

	// Unread says that input waits to be read. It counts as activity, but not
	// twice in a row: then the owner does not want it.
	Unread bool

	// Unreported is how many bytes have gone out of which neither [Conn.Sent]
	// nor an earlier Pulse has told, nor will Sent.
	Unreported int
}

// Drainer is an Owner that is told when the connection has passed
// Policy.MaxAge, so that it can finish within Policy.MaxAgeGrace; it is not told
// if that is zero.
type Drainer interface{ Drain() }

// Unwrapper is an Owner that wraps the connection which its users know. That one is
// handed back by [Tracker.Close] and [Shard.Close], which call Unwrap, instead of the
// owner.
type Unwrapper interface{ Unwrap() any }

// Reaper is an Owner of which Expire only disturbs those who use the
// connection. Reap is called Options.Linger later if they have not called
// [Conn.Close] by then. It is to close the connection.
type Reaper interface{ Reap() }
