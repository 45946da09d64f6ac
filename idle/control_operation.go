package idle

import (
	"sync"
	"time"
)

// Operation is a [Tracker.Drain] or [Tracker.Shed] that is under way. Its methods may be
// called from any goroutine, callbacks included.
type Operation struct {
	tracker *base
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
	pace   pace
	grace  time.Duration // between OnDrain and the end
	stop   time.Duration // when all are ended, busy or not; 0: never
	reason Reason
	cause  string
	most   int     // how many are ended at most
	share  float64 // 0, or which share of those that are met is
	lasts  bool    // the operation includes connections that are tracked meanwhile, and goes on until none is left

	wants func(c *candidate) bool // nil for all; called when a walk meets a connection, and again at its turn
	picks func(owner any) bool    // nil for all; the user's, called when a walk meets a connection
	after func()                  // nil, or called when the operation has finished
}

// A result is what has come of telling a connection, or of ending it.
type result struct {
	candidate
	ends bool // it was to be ended
	as   outcome
}

// Progress is how far an operation has come.
type Progress struct {
	Met   int // connections that are to be ended, as far as they have been found
	Ended int // of those, the ones that the operation has ended
	Gone  int // of those, the ones that ended otherwise
	Left  int // of those, the ones that are live

	Told  int // of those left, the ones that have been asked to finish, and have time for that
	InUse int // of those left, the ones that will be ended when they fall idle

	Elapsed  time.Duration // since the operation began, without the time in which it was paused
	Expected time.Duration // until the last one that is known has its turn, at most; 0 if the rest is due at once
	Paused   bool
	Finished bool
}

// Progress returns how far o has come. It is brought up to date a hundred times a
// second.
func (o *Operation) Progress() Progress {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.progress
}

// Reason returns [ReasonDrain] or [ReasonShed].
func (o *Operation) Reason() Reason { return o.plan.reason }

// Cause returns the cause that was given to Shed.
func (o *Operation) Cause() string { return o.plan.cause }

// Done returns a channel that is closed when o has finished: when nothing is left to do,
// or when it has been cancelled, or the tracker is closed.
func (o *Operation) Done() <-chan struct{} { return o.done }

// Cancel ends the operation. Connections that it has not ended stay open, even if it has
// asked them to finish. After o has finished Cancel has no effect.
func (o *Operation) Cancel() { o.say(func() { o.cancelled = true }) }

// Pause suspends the operation until [Operation.Resume]. Time in which it is paused does
// not count for Duration, Rate, CloseDelay and ForceAfter.
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

// hasRun returns for how long o has run, without pauses. o.mu must be held.
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
		r.conn.state.set(0, listed)
	}
	o.results = append(o.results, r)
}

// meet notes a connection that a walk visits, if the operation wants it. The walk goes
// on when the operation has been cancelled.
func (o *Operation) meet(s *Shard, c *Conn) {
	met := candidate{c, c.lastUse().Bits()}
	if o.isCancelled() || o.plan.wants != nil && !o.plan.wants(&met) || o.plan.picks != nil && !o.asks(c.owner) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cancelled || o.plan.lasts && !c.state.move(live, listed, 0) {
		return
	}
	o.fresh = append(o.fresh, met)
}

// isCancelled reports whether o has been cancelled, or has finished.
func (o *Operation) isCancelled() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cancelled
}

// asks calls a predicate of the user's. One that panics picks nobody.
func (o *Operation) asks(owner any) (yes bool) {
	o.tracker.calls.guard("Pick", func() { yes = o.plan.picks(owner) })
	return yes
}

// work is what the goroutine of an operation knows. A connection that is to be ended is
// in one place at a time: in queue until its turn, given while a shard has an order
// about it, asked while its OnTimeout is running at its turn, told while its owner has
// time to finish, or inUse until it falls idle.
type work struct {
	op   *Operation
	plan plan
	ran  time.Duration // until this step, without pauses
	paid time.Duration // the part of ran that the pace was told of

	met    []candidate // by the first walk, until that is over
	queue  queue
	given  int
	ending int  // of given, orders to end a connection
	idle   bool // no order is being carried out
	asked  []candidate
	told   []waiter // the first one is due first
	inUse  []candidate

	sweptQueue, sweptTold int // how far sweep has come
	toldGone              int // of told, those of connections that have ended

	walking  <-chan struct{} // closed when the last walk has met all connections; nil if it has
	walkedAt time.Duration   // when that began
	walked   bool            // the first one has met all, or has had walksEvery for it
	all      int             // how many were met

	taken, ended, gone int
}

// A waiter is a connection whose owner has been asked to finish. It is zero if the
// connection has ended.
type waiter struct {
	candidate
	since time.Duration // as work.ran
}

const (
	walksEvery    = time.Second // for connections that are tracked meanwhile, and those of a loop that is blocked
	inUseEachStep = 4096        // so many connections in use are looked at
	sweptEachStep = 4096        // and so many that wait, for those that have ended
	mostGiven     = 1 << 14     // so many orders are under way at most
)

// stepsEvery is how often an operation takes a step.
const stepsEvery = 10 * time.Millisecond

// begin starts an operation. It has a goroutine, which ends when it has finished.
func (b *base) begin(p plan) *Operation {
	o := &Operation{tracker: b, plan: p, done: make(chan struct{}), wake: make(chan struct{}, 1), changed: time.Now()}
	go o.run()
	return o
}

// run is the goroutine of an operation.
func (o *Operation) run() {
	w := &work{op: o, plan: o.plan}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for finished := false; !finished; timer.Reset(stepsEvery) {
		select {
		case <-o.tracker.stop:
			w.letFinish()
			finished = true
		case <-o.wake:
			finished = w.step()
		case <-timer.C:
			finished = w.step()
		}
	}
	w.finish()
	if o.plan.after != nil {
		o.plan.after()
	}
	close(o.done)
}

// step does what is due. It reports whether nothing is left to do.
func (w *work) step() (finished bool) {
	paused, cancelled := w.hear()
	w.sweep()
	if !paused && !cancelled {
		w.walk()
		w.advance()
	}
	switch {
	case cancelled:
		finished = w.idle // orders that have not begun come to nothing
	case w.given > 0 || w.walking != nil:
	case w.plan.lasts:
		finished = w.left() == 0 && w.op.tracker.live() == 0
	default:
		finished = w.left() == 0 && w.walked
	}
	w.publish(paused, finished)
	return finished
}

// hear takes note of what the user wants, of the time, and of what has come of orders.
// Those that were told since the last step have their grace from now.
func (w *work) hear() (paused, cancelled bool) {
	o := w.op
	o.mu.Lock()
	results := o.results
	o.results = nil
	paused, cancelled = o.paused, o.cancelled
	w.ran, w.idle = o.hasRun(), o.running == 0
	o.mu.Unlock()
	for _, r := range results {
		w.given--
		if r.ends {
			w.ending--
		}
		switch {
		case r.as == ended:
			w.ended++
		case r.as == gone:
			w.gone++
			if !r.ends {
				w.taken-- // another one may have its turn
			}
		case r.as == told:
			w.told = append(w.told, waiter{r.candidate, w.ran})
		case !r.ends: // OnTimeout is running
			w.asked = append(w.asked, r.candidate)
		default:
			w.inUse = append(w.inUse, r.candidate)
		}
	}
	return paused, cancelled
}

// sweep looks for connections that have ended by themselves, at a few in each step.
func (w *work) sweep() {
	before := w.waiting()
	w.sweptQueue = w.queue.sweep(w.sweptQueue, sweptEachStep)
	w.gone += before - w.waiting()
	for range min(len(w.told), sweptEachStep) {
		w.sweptTold = (w.sweptTold + 1) % len(w.told)
		if c := &w.told[w.sweptTold]; c.conn != nil && !c.conn.Live() {
			*c = waiter{}
			w.gone++
			w.toldGone++
		}
	}
}

// walk begins a walk if there are connections that the operation has not met, and takes
// over those that a walk has met. When the first walk is over, the turns begin. A loop that
// is blocked does not finish it, so they begin in any case when it has had walksEvery.
func (w *work) walk() {
	o := w.op
	o.mu.Lock()
	fresh := o.fresh
	o.fresh = nil
	o.mu.Unlock()
	w.met = append(w.met, fresh...)
	late := w.ran-w.walkedAt >= walksEvery
	if w.walking != nil {
		select {
		case <-w.walking:
			w.walking, w.walked = nil, true
		default:
			w.walked = w.walked || late || w.plan.stop > 0 && w.ran >= w.plan.stop
		}
	}
	if w.walked && len(w.met) > 0 {
		if w.all += len(w.met); w.plan.share > 0 {
			w.plan.most = int(w.plan.share*float64(w.all) + 0.5)
		}
		w.queue.add(w.met...)
		w.met = nil
	}
	if !w.walked && w.walking == nil || w.plan.lasts && late && o.tracker.live() > w.left() {
		w.walkedAt = w.ran
		w.walking = o.tracker.walkInstead(o, o.meet)
	}
}

// advance gives the orders that are due.
func (w *work) advance() {
	if w.plan.stop > 0 && w.ran >= w.plan.stop {
		w.endAll()
		return
	}
	asked := w.asked
	w.asked = nil
	for _, c := range asked {
		if w.plan.wants != nil && !w.plan.wants(&c) {
			w.taken-- // it has been active meanwhile
			continue
		}
		w.tell(c)
	}
	due := min(w.plan.pace.step(w.ran-w.paid, w.waiting()), w.mayGive())
	w.paid = w.ran
	w.queue.grant(due)
	w.inTurn(due, w.tell)
	w.queue.lookAhead()
	w.endTold(w.plan.grace, false)
	w.endIdle()
}

// inTurn calls do for each of the next n connections in the queue.
func (w *work) inTurn(n int, do func(candidate)) {
	for range min(n, w.mayGive()) {
		if c, ok := w.next(); ok {
			do(c)
		}
	}
}

// endTold ends connections that were told the given time ago.
func (w *work) endTold(ago time.Duration, forced bool) {
	for len(w.told) > 0 && w.mayGive() > 0 {
		switch first := w.told[0]; {
		case first.conn == nil:
			w.toldGone--
		case w.ran-first.since < ago:
			return
		default:
			w.end(first.candidate, forced)
		}
		w.told = w.told[1:]
	}
}

// mayGive returns how many more orders may be given.
func (w *work) mayGive() int { return max(0, mostGiven-w.given) }

// waiting returns how many connections wait for their turn.
func (w *work) waiting() int {
	return min(w.queue.len(), w.plan.most-w.taken)
}

// next takes the most idle connection from the queue that is wanted still.
func (w *work) next() (c candidate, ok bool) {
	for {
		before := w.waiting()
		if c, ok = w.queue.next(); !ok {
			w.gone += before
			return c, false
		}
		w.taken++
		w.gone += before - 1 - w.waiting()
		if w.plan.wants == nil || w.plan.wants(&c) {
			return c, true
		}
		w.taken--
	}
}

// endIdle ends connections that have fallen idle.
func (w *work) endIdle() {
	some := w.inUse[:min(len(w.inUse), inUseEachStep, w.mayGive())]
	w.inUse = w.inUse[len(some):]
	for _, c := range some {
		switch {
		case !c.conn.Live():
			w.gone++
		case c.conn.isBusy():
			w.inUse = append(w.inUse, c)
		default:
			w.end(c, false)
		}
	}
}

// endAll ends all that is left, at once.
func (w *work) endAll() {
	w.inUse = append(w.inUse, w.asked...)
	w.asked = nil
	some := w.inUse[:min(len(w.inUse), w.mayGive())]
	w.inUse = w.inUse[len(some):]
	for _, c := range some {
		w.end(c, true)
	}
	w.endTold(0, true)
	w.inTurn(w.waiting(), func(c candidate) { w.end(c, true) })
}

// tell has the owner of c asked to finish.
func (w *work) tell(c candidate) {
	w.give(c, false, func(s *Shard) outcome { return s.invite(c.conn) })
}

// end has c ended.
func (w *work) end(c candidate, forced bool) {
	d := dismissal{reason: w.plan.reason, cause: w.plan.cause, forced: forced}
	if w.give(c, true, func(s *Shard) outcome { return s.dismiss(c.conn, d) }) {
		w.ending++
	}
}

// give gives the shard of c an order. It reports whether the shard is not closed.
func (w *work) give(c candidate, ends bool, order func(*Shard) outcome) bool {
	s, o := c.conn.shard, w.op
	if !s.do(func() {
		as, runs := inUse, o.mayRun()
		if runs {
			as = order(s)
		}
		o.report(result{c, ends, as}, runs)
	}) {
		w.gone++ // the shard is closed, and has handed the connection back
		return false
	}
	w.given++
	return true
}

// left returns how many connections are to be ended still.
func (w *work) left() int {
	return w.waiting() + w.given + len(w.asked) + len(w.told) - w.toldGone + len(w.inUse)
}

// publish brings the progress up to date.
func (w *work) publish(paused, finished bool) {
	p := Progress{
		Ended: w.ended, Gone: w.gone, Left: w.left(), Told: len(w.told) - w.toldGone, InUse: len(w.inUse) + len(w.asked) + w.ending,
		Elapsed: w.ran, Expected: w.plan.pace.expected(w.waiting()), Paused: paused, Finished: finished,
	}
	p.Met = p.Ended + p.Gone + p.Left
	w.op.mu.Lock()
	defer w.op.mu.Unlock()
	w.op.progress = p
}

// letFinish waits for the results of what shards still do while the tracker is closed, as long
// as Close waits at most. A loop that has ended does nothing any more.
func (w *work) letFinish() {
	for begun := time.Now(); w.given > 0 && time.Since(begun) < w.op.tracker.opts.ReapDelay; w.hear() {
		time.Sleep(stepsEvery)
	}
}

// finish makes the connections that are left as if the operation had not met them.
func (w *work) finish() {
	w.hear()
	w.publish(false, true)
	w.op.mu.Lock()
	w.op.cancelled = true // so that a walk that goes on adds nothing
	all := w.op.fresh
	w.op.fresh = nil
	w.op.mu.Unlock()
	if !w.plan.lasts {
		return // the Drain beside it has listed them
	}
	for _, some := range [][]candidate{w.met, w.queue.all(), w.asked, w.inUse} {
		all = append(all, some...)
	}
	for _, t := range w.told {
		if t.conn != nil {
			all = append(all, t.candidate)
		}
	}
	for _, c := range all {
		c.conn.state.set(0, listed)
	}
}
