package idle

import (
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/turns"
)

// Operation is a [Tracker.Drain] or [Tracker.Shed] that is under way. Its methods may be
// called from any goroutine, callbacks included.
type Operation struct {
	tracker *Tracker
	plan    plan
	done    chan struct{}
	wake    chan struct{} // something has been said to the operation

	mu        sync.Mutex // guards what follows
	cancelled bool       // or finished
	paused    bool
	changed   time.Time     // when paused was, or when o began
	ran       time.Duration // until then, without pauses
	progress  Progress
	fresh     []candidate // met by a walk that is under way
	results   []result
	running   int // orders that are being carried out
}

// A plan is what an operation does.
type plan struct {
	pace   turns.Pace
	grace  time.Duration // between OnDrain and the end
	stop   time.Duration // when all are ended, busy or not; 0: never
	reason Reason
	cause  string
	most   int     // how many are ended at most
	share  float64 // 0, or which share of those that are met is
	lasts  bool    // the operation includes connections that are tracked meanwhile, and goes on until none is left

	wants func(c *Conn) bool   // nil for all; called when a walk meets a connection, and again at its turn
	picks func(owner any) bool // nil for all; the user's, called when a walk meets a connection
}

// A result says what happened when a connection was told to finish, or ended.
type result struct {
	candidate
	ends bool // it was to be ended
	as   outcome
}

// Progress says how far an operation has come.
type Progress struct {
	Met   int // connections that are to be ended, as far as they have been found
	Ended int // of those, the ones that the operation has ended
	Gone  int // of those, the ones that ended otherwise
	Left  int // of those, the ones that are live

	Told  int // of those left, the ones that have been asked to finish, and have time for that
	InUse int // of those left, the ones that will be ended when they fall idle

	Elapsed  time.Duration // since the operation began, without the time in which it was paused
	Expected time.Duration // at most this long until the last connection that is known has its turn; 0 if the rest is due at once
	Paused   bool
	Finished bool
}

// Progress returns how far o has come. It is updated a hundred times per second.
func (o *Operation) Progress() Progress {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.progress
}

// Reason returns [ReasonDrain] or [ReasonShed].
func (o *Operation) Reason() Reason { return o.plan.reason }

// Cause returns the cause that was given to Shed.
func (o *Operation) Cause() string { return o.plan.cause }

// Done returns a channel that is closed when o has finished: because nothing is left to do,
// because it was cancelled, or because the tracker is closed.
func (o *Operation) Done() <-chan struct{} { return o.done }

// Cancel ends the operation. Connections that it has not ended stay open, even if it has asked
// them to finish. Cancel doesn't undo what OnDrain has begun: the next response on an HTTP
// connection that was asked to finish still says Connection: close. After o has finished, Cancel
// has no effect.
func (o *Operation) Cancel() { o.say(func() { o.cancelled = true }) }

// Pause suspends the operation until [Operation.Resume]. Duration, Rate, CloseDelay and
// ForceAfter don't count the time in which it's paused.
func (o *Operation) Pause() { o.say(func() { o.pause(true) }) }

// Resume continues a paused operation at the rate that it had.
func (o *Operation) Resume() { o.say(func() { o.pause(false) }) }

// pause pauses o, or resumes it. o.mu must be held.
func (o *Operation) pause(paused bool) {
	if paused != o.paused {
		o.ran = o.hasRun()
		o.changed, o.paused = time.Now(), paused
	}
}

// hasRun returns how long o has run, without pauses. o.mu must be held.
func (o *Operation) hasRun() time.Duration {
	if o.paused {
		return o.ran
	}
	return o.ran + time.Since(o.changed)
}

// say changes what o is to do, and wakes it.
func (o *Operation) say(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// mayRun reports whether an order may be carried out. It comes late if a loop was blocked. If
// the operation has been paused or cancelled meanwhile, nothing is done.
func (o *Operation) mayRun() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cancelled || o.paused {
		return false
	}
	o.running++
	return true
}

// report receives the result of an order. It is called in a pass.
func (o *Operation) report(r result, ran bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ran {
		o.running--
	}
	if o.cancelled && o.plan.lasts { // finish may have come before
		r.Conn.state.drop(listed)
	}
	o.results = append(o.results, r)
}

// walk starts a walk that meets all connections. A shard in which another walk of o is waiting
// needn't make this one.
func (o *Operation) walk() (done <-chan struct{}) {
	o.tracker.mu.Lock()
	defer o.tracker.mu.Unlock()
	return o.tracker.startWalk(o, o.meet)
}

// meet notes a connection that a walk visits, if the operation wants it. The walk goes
// on when the operation has been cancelled.
func (o *Operation) meet(s *Shard, c *Conn) {
	if o.isCancelled() || o.plan.wants != nil && !o.plan.wants(c) || o.plan.picks != nil && !o.asks(c.owner) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cancelled || o.plan.lasts && !c.state.move(live, listed, 0) {
		return
	}
	o.fresh = append(o.fresh, candidate{Conn: c, Last: c.lastUse().Bits()})
}

// isCancelled reports whether o has been cancelled, or has finished.
func (o *Operation) isCancelled() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cancelled
}

// asks calls Filter. If Filter panics, the connection isn't chosen.
func (o *Operation) asks(owner any) (yes bool) {
	o.tracker.calls.Guard("Filter", func() { yes = o.plan.picks(owner) })
	return yes
}
