package idle

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Hooks are the functions that a tracker calls about the connections of one adapter. One value
// serves all of them. It must not be changed while any of them is tracked. A nil function isn't
// called. Expire is required.
//
// owner is the value that was passed to Track with the connection.
//
// On a loop-driven [Shard], all functions are called on the loop, and none may
// block. A function that ends the loop's goroutine (runtime.Goexit) may leave its work
// unfinished. Otherwise Ping, OnTimeout, OnEnd and OnDrain are called on
// goroutines of their own and may block. When many connections are due at once, as many
// goroutines run. Probe, Unsent and Expire are called in passes, unless OnEnd comes before Expire,
// and must neither block nor call runtime.Goexit. The same goes for Options.Label
// and the function of a Visit. Passes of several shards may call them at the same time, for different
// connections. A panic in a function is logged and counted, and does
// not affect other connections.
type Hooks struct {
	// Ping sends the peer a message that it has to answer. An active [Heartbeat]
	// requires it. If Ping fails or blocks, a miss follows as if the ping had
	// stayed unanswered. While it blocks it is not called again.
	Ping func(owner any) error

	// OnTimeout is called before a connection is timed out. If it returns true, the connection is
	// kept, and the limit named in err starts over. It isn't asked about MaxAge, nor by a [Tracker.Drain],
	// [Conn.End] or an eviction. Conn.End and the ForceAfter of a Drain end a connection even
	// while OnTimeout runs, and its result is then ignored. No limit of the connection is checked
	// meanwhile, so a write in OnTimeout needs a deadline. Activity while it runs prevents the
	// timeout, so an adapter must not report what its user writes here. After it has
	// returned false for IdleTimeout, the field Out of the next SocketState is ignored, because it
	// may be about a farewell that was written here.
	OnTimeout func(owner any, err *TimeoutError) (keep bool)

	// OnEnd is called once when a connection has timed out, or was ended in another way. Expire
	// follows when OnEnd has returned, or a second after OnEnd began if it hasn't returned
	// by then (on an event loop, it always follows OnEnd). OnEnd may write to the peer. No limit applies to that write, but it
	// fails at Expire.
	OnEnd func(owner any, err *TimeoutError)

	// OnDrain asks the owner to finish. It is called when the connection has its turn in a Drain,
	// and when it has passed Policy.MaxAge and has a Policy.MaxAgeGrace to finish in. So
	// it may be called more than once, but not while it is running.
	OnDrain func(owner any)

	// Probe returns what the owner can find out about a connection that is about to be ended. Its
	// second argument names the limit that seems to have passed, or ReasonDrain, ReasonEvict or
	// ReasonShed if a connection is to be ended that isn't busy. Probe isn't called for MaxAge.
	// After an OnTimeout it may be called again for the same limit. What it returns may affect other limits too.
	Probe func(owner any, about Reason) SocketState

	// Unsent returns how many bytes wait for the peer, as far as the owner can tell.
	// [Info.Unsent] calls it for a connection on which a write waits, in a pass, like
	// Probe.
	Unsent func(owner any) int

	// Expire is called once when a connection has timed out, or was ended in
	// another way, even if its owner has called [Conn.Stop] while OnEnd was running. It
	// must close the connection, on a goroutine of its own if that may block.
	Expire func(owner any, err *TimeoutError)
}

// Check returns an error if p needs a function that h does not have: an active
// [Heartbeat] needs Ping. Track and Enter check that too.
func (h *Hooks) Check(p Policy) error {
	if beat := p.Heartbeat; beat.Interval > 0 && !beat.Passive && h.Ping == nil {
		return fmt.Errorf("idle: the policy has an active Heartbeat (every %v), but there is no Ping to call; set Ping, or use the Passive form", beat.Interval)
	}
	return nil
}

// fit is Check for limits.
func (h *Hooks) fit(l *limits) error {
	if l.interval == 0 || h.Ping != nil { // so that the policy is copied only for an error
		return nil
	}
	return h.Check(l.policy)
}

// SocketState says what an owner has found out about a connection beyond what it has reported,
// usually by asking the kernel. The zero SocketState means that nothing is known.
type SocketState struct {
	// In and Out say how long ago the last bytes arrived and were sent; 0 means not known. Probe
	// has to report them each time, because it may be called twice about the same byte. Bytes
	// count as sent when they are first sent, and again when the peer acknowledges them while
	// others still wait.
	In, Out time.Duration

	// OutEmpty says that no bytes wait to be sent or acknowledged.
	OutEmpty bool

	// Sending says that bytes that were written before are still being sent, to a peer that
	// receives them slowly. A drain waits for it, because the peer
	// may lose these bytes if the connection is closed, above all if it sends something meanwhile.
	Sending bool

	// NotWriting says that no bytes wait to be sent, although the last report was
	// [Conn.AwaitWrite] or [Conn.RestartWrite]. The limits of writing start over.
	NotWriting bool

	// Doubt, if not 0, says that bytes may have been sent that long ago without the owner
	// noticing. An owner that only knows the length of the queue doesn't notice if as many bytes
	// were added as have left. Doubt delays WriteTimeout only. IdleTimeout doesn't need it, because the bytes that were added
	// have been reported.
	Doubt time.Duration

	// Unread says that input is waiting to be read; see [Policy] for what that means. In is then ignored.
	Unread bool

	// Unreported is the number of sent bytes that no [Conn.Sent] and no earlier SocketState has
	// reported, and that no later Sent will.
	Unreported int

	// UnreportedIn is the same for received bytes and [Conn.Received]. They count for MinReadRate only.
	UnreportedIn int
}

// Expect says that connections with h will be tracked. It fails if the tracker's policy needs a
// function that h does not have. Later SetPolicy fails for such a policy. Track does the same, so only
// an adapter that tracks nothing for now needs Expect: without it, a policy could be replaced by one
// with which every Track fails.
func (t *Tracker) Expect(h *Hooks) error {
	t.mustBeMade()
	if h.Ping == nil && !t.pingless.Load() {
		t.mu.Lock() // if a SetPolicy misses that, it has replaced the policy before, so Track sees the new one
		t.pingless.Store(true)
		t.mu.Unlock()
	}
	return h.fit(t.phase.limits())
}

// Track starts tracking c on one of the tracker's own shards; see [Shard.Track].
func (t *Tracker) Track(c *Conn, owner any, h *Hooks) error {
	t.mustBeMade()
	return t.own[t.turn.Add(1)%uint32(len(t.own))].Track(c, owner, h)
}

// NewShard makes a shard for an event loop. The methods of the shard and of its connections must be called on the loop,
// where their [Hooks] are called too. So no activity waits for a pass.
//
// When something is due, execute is called on a goroutine of its own. It must make the loop call pass
// once, soon, and must not call pass itself. It may block while the loop does, and may be running
// until Close of the tracker has returned. At most one pass is pending at a time. If execute fails, it
// is called again at the next tick. A pass takes no longer than Options.Budget; callbacks that take
// longer are the exception. Options.Shards doesn't include shards of loops.
//
// NewShard fails with [ErrClosed] if the tracker is closed, and panics if execute
// is nil.
func (t *Tracker) NewShard(execute func(pass func()) error) (*Shard, error) {
	t.mustBeMade()
	if execute == nil {
		panic("idle: NewShard(nil); pass a function that makes the loop call a pass")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	s := t.newShard(execute)
	if d := t.draining.Load(); d != nil {
		s.turns = &turns{of: d, given: true}
	}
	t.loops = append(t.loops, s)
	return s, nil
}

// NewPhased returns a tracker without a policy, for adapters that make policies of settings of their own: each connection
// has to enter a phase before it does anything else. setting, if not nil, returns the user's name of a limit, given
// the phase and the reason with which it ends connections, or "" if that name is the field of [Policy]. Errors, ends, metrics and
// pages have these names. setting must not block. NewPhased fails like [New]. If opts.Tick is 0, the tick is 100 ms.
func NewPhased(opts *Options, setting func(phase string, r Reason) string) (*Tracker, error) {
	t, err := New(Policy{IdleTimeout: time.Hour}, opts)
	if err == nil {
		t.phased, t.setting = true, setting
	}
	return t, err
}

// Setting returns the name of the limit that ends connections of a phase for r: what the setting function of [NewPhased]
// returns, or else the field of [Policy]. It returns "" for a reason that is no limit.
func (t *Tracker) Setting(phase string, r Reason) string {
	t.mustBeMade()
	name, field := "", r.setting()
	if t.setting != nil && field != "" {
		t.calls.Guard("Setting", func() { name = t.setting(phase, r) })
	}
	return cmp.Or(name, field)
}

// ErrShardClosed is returned when a [Shard] is used that is closed.
var ErrShardClosed = errors.New("idle: the shard is closed, as its event loop has ended; make a new one with NewShard")

// ErrTracked is returned by Track of a [Conn] that is tracked already, or was.
var ErrTracked = errors.New("idle: the Conn is tracked already, or was; use a new one for each connection, and each time that it is tracked")

var errInPass = errors.New("idle: Shard.Close was called in a callback of the shard; call it on the loop afterwards")
