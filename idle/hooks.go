package idle

import (
	"fmt"
	"time"
)

// Hooks are what a tracker calls about the connections of one adapter. One value
// serves all of them, and must not be changed while any is tracked. A nil function
// is not called; Expire is required.
//
// owner is what was passed to Track with the connection. On a loop-driven [Shard]
// all of them are called on the loop. Otherwise Ping, OnTimeout, OnEnd, OnDrain and
// Reap, which may block, get goroutines; Examine and Expire are called by the
// driver and must not block. A panic in any of them is logged and counted, and harms
// no other connection.
type Hooks struct {
	// Ping asks the peer for a sign of life. An active [Heartbeat] requires it. A
	// Ping that fails or blocks is followed by a miss like one that stays
	// unanswered, and while it blocks there is no second one.
	Ping func(owner any) error

	// OnTimeout is asked before a connection is timed out. If it returns true, the
	// limit named in err begins anew. Until it returns no limit of the connection
	// is looked at, the one of writing included. Activity meanwhile averts the
	// timeout, so an owner that writes a farewell should not report it.
	OnTimeout func(owner any, err *TimeoutError) (keep bool)

	// OnEnd is called once when a connection has timed out, and Expire when it has
	// returned. It may tell the peer; what it writes wants a deadline, as no limit
	// ends it any more.
	OnEnd func(owner any, err *TimeoutError)

	// OnDrain is called when a connection has passed Policy.MaxAge, so that it can
	// finish within Policy.MaxAgeGrace; not if that is zero.
	OnDrain func(owner any)

	// Examine is asked before a connection is timed out, but for its age or that of
	// its phase: once for each limit that seems to have been passed, which is named.
	// What it finds out may be about any of them.
	Examine func(owner any, about Reason) Evidence

	// Expire is called once when a connection has timed out. It is to disturb
	// whoever reads or writes, and may close the connection.
	Expire func(owner any, err *TimeoutError)

	// Reap is called Options.Linger after Expire if [Conn.Close] has not been
	// called by then. It is to close the connection. It is for owners of which
	// Expire only disturbs those who use the connection.
	Reap func(owner any)
}

// Check reports what p needs that h does not have: an active [Heartbeat] needs Ping.
// Track and Enter check it too.
func (h *Hooks) Check(p Policy) error {
	if beat := p.Heartbeat; beat.Interval > 0 && !beat.Passive && h.Ping == nil {
		return fmt.Errorf("idle: the policy has an active Heartbeat (every %v), but there is no Ping to call; set Ping, or use the Passive form", beat.Interval)
	}
	return nil
}

// Evidence is what an owner finds out about a connection beyond what it has
// reported, usually by asking the kernel. The zero Evidence is that nothing is known.
type Evidence struct {
	// In and Out say how long ago the last bytes arrived, or went out; 0 is not
	// known. Examine has to tell that each time, as the kernel does: it may be asked
	// twice about the same byte. Bytes go out when they are sent for the first time,
	// and once more, if others still wait, when the peer acknowledges them.
	In, Out time.Duration

	// OutEmpty says that nothing waits to go out, nor for the peer to acknowledge it.
	OutEmpty bool

	// NotWriting says that nothing waits to go out, although the last report was
	// [Conn.AwaitWrite] or [Conn.RestartWrite]. The limits of writing begin anew.
	NotWriting bool

	// Doubt says that bytes may have gone out that long ago unseen, if more came
	// to wait at the same time; 0 if not. It puts off WriteTimeout only, as
	// IdleTimeout has been told of those that came.
	Doubt time.Duration

	// Unread says that input waits to be read. It counts as activity, but not
	// twice in a row: then the owner does not want it.
	Unread bool

	// Unreported is how many bytes have gone out of which neither [Conn.Sent]
	// nor earlier Evidence has told, nor will Sent.
	Unreported int
}
