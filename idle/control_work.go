package idle

import (
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/turns"
)

// work is the state of an operation's goroutine. A connection that has to be ended is in one
// place at a time: in queue until its turn, given while its shard has an order about it, told
// while its owner has time to finish, and inUse while it is busy.
type work struct {
	op   *Operation
	plan plan
	ran  time.Duration // until this step, without pauses
	paid time.Duration // the part of ran that pace has counted

	queue  turns.Queue[*Conn]
	told   []waiter // the first one is due first
	inUse  []waiter // also those whose OnTimeout runs at their turn, and those of a blocked loop
	given  map[*Shard]*orders
	ending int       // of given, orders to end a connection
	stuck  int       // of an eviction's orders, those of blocked loops; another eviction takes others
	quota  int       // orders that may be given in this step
	idle   bool      // no order is being carried out
	prune  time.Time // when to search again for connections that have ended

	walking  <-chan struct{} // closed when the last walk has met all connections; nil if it has
	walkedAt time.Duration   // when that began
	walked   bool            // the first one has met all, or has had walksEvery for it
	all      int             // how many were met

	taken, ended, gone int
}

// A waiter is a connection that has had its turn.
type waiter struct {
	candidate
	since time.Duration // when its owner was asked to finish, as work.ran
	told  bool          // it was
}

// orders counts the orders that a shard has.
type orders struct {
	n     int
	heard time.Duration // the last result, or when n became 1, as work.ran
}

const (
	walksEvery    = time.Second // for connections that are tracked meanwhile, and those of a loop that is blocked
	inUseEachStep = 4096        // how many connections in use are checked
	mostGiven     = 1 << 14     // how many orders are under way at most, not counting those of blocked loops
	pruneEach     = 2500        // ns between two searches for ended connections, for each that waits
)

// stepsEvery is how often an operation takes a step.
const stepsEvery = 10 * time.Millisecond

// begin starts an operation. It has a goroutine, which ends when it has finished.
func (t *Tracker) begin(p plan) *Operation {
	o := &Operation{tracker: t, plan: p, done: make(chan struct{}), wake: make(chan struct{}, 1), changed: time.Now()}
	go o.run()
	return o
}

// unlist removes an operation that has finished.
func (t *Tracker) unlist(o *Operation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.operations = slices.DeleteFunc(t.operations, func(have *Operation) bool { return have == o })
}

// run is the goroutine of an operation.
func (o *Operation) run() {
	lastUse := func(c *Conn) (stamp uint32, live bool) { return c.lastUse().Bits(), c.Live() }
	w := &work{op: o, plan: o.plan, queue: turns.NewQueue(lastUse), given: map[*Shard]*orders{}}
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
	o.tracker.unlist(o)
	close(o.done)
}

// step does what is due. It reports whether nothing is left to do.
func (w *work) step() (finished bool) {
	paused, cancelled := w.hear()
	w.dropEnded()
	if !paused && !cancelled {
		w.walk()
		w.advance()
	}
	switch {
	case cancelled:
		finished = w.idle // orders that have not begun come to nothing
	case w.walking != nil && !(w.evicts() && w.walked) || w.left() > w.stuck:
	case w.plan.lasts:
		finished = w.op.tracker.live() == 0
	default:
		finished = w.walked
	}
	w.publish(paused, finished)
	return finished
}

// hear reads what the user wants, the time, and the outcomes of orders. Those that were told
// since the last step have their grace from now.
func (w *work) hear() (paused, cancelled bool) {
	o := w.op
	o.mu.Lock()
	results := o.results
	o.results = nil
	paused, cancelled = o.paused, o.cancelled
	w.ran, w.idle = o.hasRun(), o.running == 0
	o.mu.Unlock()
	for _, r := range results {
		of := w.given[r.Conn.shard]
		of.n--
		of.heard = w.ran
		if r.ends {
			w.ending--
		}
		switch r.as {
		case ended:
			w.ended++
		case gone:
			w.gone++
			if !r.ends {
				w.taken-- // another one may have its turn
			}
		case told:
			w.told = append(w.told, waiter{r.candidate, w.ran, true})
		case inUse:
			w.postpone(r.candidate, r.ends)
		}
	}
	quota := mostGiven
	w.stuck = 0
	for s, of := range w.given {
		switch {
		case !w.isBlocked(s):
			quota -= of.n
		case w.evicts():
			w.stuck += of.n
		}
	}
	w.quota = max(quota, 0) // a loop that goes on has orders that did not count while it was blocked
	return paused, cancelled
}

// isBlocked reports whether s hasn't carried out an order for a time that suggests that its loop
// is blocked.
func (w *work) isBlocked(s *Shard) bool {
	of := w.given[s]
	return of != nil && of.n > 0 && w.ran-of.heard >= time.Second
}

// dropEnded drops connections that have ended by themselves.
func (w *work) dropEnded() {
	now := time.Now()
	if now.Before(w.prune) {
		return
	}
	before := w.waiting() + len(w.told) + len(w.inUse)
	w.prune = now.Add(time.Duration(before) * pruneEach)
	hasEnded := func(c waiter) bool { return !c.Conn.Live() }
	w.queue.Prune()
	w.told = slices.DeleteFunc(w.told, hasEnded)
	w.inUse = slices.DeleteFunc(w.inUse, hasEnded)
	w.gone += before - w.waiting() - len(w.told) - len(w.inUse)
}

// walk begins a walk if there may be connections that the operation hasn't met, and takes over
// those that a walk has met. The turns begin when the first walk is over, or has taken
// walksEvery, because a blocked loop doesn't finish it.
func (w *work) walk() {
	o := w.op
	late := w.ran-w.walkedAt >= walksEvery
	if w.walking != nil {
		select {
		case <-w.walking:
			w.walking, w.walked = nil, true
		default:
			w.walked = w.walked || late || w.plan.stop > 0 && w.ran >= w.plan.stop
		}
	}
	if w.walked {
		o.mu.Lock()
		fresh := o.fresh
		o.fresh = nil
		o.mu.Unlock()
		if w.all += len(fresh); w.plan.share > 0 {
			w.plan.most = int(w.plan.share*float64(w.all) + 0.5)
		}
		w.queue.Add(fresh)
	}
	if !w.walked && w.walking == nil || w.plan.lasts && late && o.tracker.live() > w.left() {
		w.walkedAt = w.ran
		w.walking = o.walk()
	}
}

// advance gives the orders that are due.
func (w *work) advance() {
	if w.plan.stop > 0 && w.ran >= w.plan.stop {
		w.retry(true)
		w.endTold(0, true)
		w.inTurn(w.waiting(), func(c candidate) { w.end(c, true) })
		return
	}
	due := min(w.plan.pace.Step(w.ran-w.paid, w.waiting()), w.quota)
	w.paid = w.ran
	if w.evicts() {
		w.inTurn(due, w.evict)
	} else {
		w.inTurn(due, w.tell)
	}
	w.endTold(w.plan.grace, false)
	w.retry(false)
}

// inTurn calls do for each of the next n connections in the queue that are still wanted.
func (w *work) inTurn(n int, do func(candidate)) {
	before := w.waiting()
	some := w.queue.Take(min(n, w.quota), func(c *Conn) bool {
		wanted := w.plan.wants == nil || w.plan.wants(c)
		if !wanted {
			before-- // it does not count any more
		}
		return wanted
	})
	w.taken += len(some)
	w.gone += max(0, before-len(some)-w.waiting())
	for _, c := range some {
		do(c)
	}
}

// endTold ends connections that were told the given time ago.
func (w *work) endTold(ago time.Duration, forced bool) {
	for len(w.told) > 0 && w.quota > 0 && w.ran-w.told[0].since >= ago {
		w.end(w.told[0].candidate, forced)
		w.told = w.told[1:]
	}
}

// waiting returns how many connections wait for their turn.
func (w *work) waiting() int {
	return min(w.queue.Len(), w.plan.most-w.taken)
}

// retry checks some connections that were in use. It ends those that have fallen idle, or all if
// forced.
func (w *work) retry(forced bool) {
	n := inUseEachStep
	if forced {
		n = w.quota
	}
	n = min(n, len(w.inUse))
	some := w.inUse[:n]
	w.inUse = w.inUse[n:]
	for _, c := range some {
		switch {
		case w.quota == 0 || w.isBlocked(c.Conn.shard):
			w.inUse = append(w.inUse, c)
		case forced:
			w.end(c.candidate, true)
		case !c.told && c.Conn.state.Load()&asking == 0:
			if w.plan.wants == nil || w.plan.wants(c.Conn) {
				w.tell(c.candidate)
			} else {
				w.taken-- // it has been active meanwhile
			}
		case !c.told || c.Conn.isBusy():
			w.inUse = append(w.inUse, c)
		default:
			w.end(c.candidate, false)
		}
	}
}

// tell asks the owner of c to finish.
func (w *work) tell(c candidate) {
	w.give(c, false, func(s *Shard) outcome { return s.invite(c.Conn) })
}

// end has c ended.
func (w *work) end(c candidate, forced bool) {
	d := dismissal{reason: w.plan.reason, cause: w.plan.cause, forced: forced}
	w.give(c, true, func(s *Shard) outcome { return s.dismiss(c.Conn, d) })
}

// postpone makes c wait until it falls idle, its OnTimeout has returned, or its loop goes on. In
// an eviction, another connection has its turn instead.
func (w *work) postpone(c candidate, told bool) {
	if w.evicts() {
		w.taken--
	} else {
		w.inUse = append(w.inUse, waiter{candidate: c, told: told})
	}
}

// evicts reports whether the operation evicts connections because of a [Capacity]. Then it tells
// none to finish, and waits for none that is in use.
func (w *work) evicts() bool { return w.plan.reason == ReasonEvict }

// evict ends c, unless it's in use.
func (w *work) evict(c candidate) {
	d := dismissal{reason: ReasonEvict, still: true, last: c.Last, may: func() bool { return w.plan.wants(c.Conn) }}
	w.give(c, true, func(s *Shard) outcome { return s.dismiss(c.Conn, d) })
}

// give gives an order about c to its shard: to end c, or to tell its owner. If the shard is
// blocked, it gets the order later.
func (w *work) give(c candidate, ends bool, order func(*Shard) outcome) {
	s, o := c.Conn.shard, w.op
	if w.isBlocked(s) {
		w.postpone(c, ends)
		return
	}
	if !s.do(func() {
		as, runs := inUse, o.mayRun()
		if runs {
			as = order(s)
		}
		o.report(result{c, ends, as}, runs)
	}) {
		w.gone++ // the shard is closed, and has handed the connection back
		return
	}
	of := w.given[s]
	if of == nil {
		of = &orders{}
		w.given[s] = of
	}
	if of.n++; of.n == 1 {
		of.heard = w.ran
	}
	w.quota--
	if ends {
		w.ending++
	}
}

// underWay returns how many orders are.
func (w *work) underWay() (n int) {
	for _, of := range w.given {
		n += of.n
	}
	return n
}

// left returns how many connections still have to be ended.
func (w *work) left() int { return w.waiting() + w.underWay() + len(w.told) + len(w.inUse) }

// publish updates the progress.
func (w *work) publish(paused, finished bool) {
	p := Progress{
		Ended: w.ended, Gone: w.gone, Left: w.left(), Told: len(w.told), InUse: len(w.inUse) + w.ending,
		Elapsed: w.ran, Expected: w.plan.pace.Expected(w.waiting()), Paused: paused, Finished: finished,
	}
	p.Met = p.Ended + p.Gone + p.Left
	w.op.mu.Lock()
	defer w.op.mu.Unlock()
	w.op.progress = p
}

// letFinish waits for the results of orders that shards still carry out while the tracker is
// being closed, for as long as Close waits. A loop that has ended carries out none.
func (w *work) letFinish() {
	for begun := time.Now(); w.underWay() > 0 && time.Since(begun) < w.op.tracker.opts.ReapDelay; w.hear() {
		time.Sleep(stepsEvery)
	}
}

// finish resets the connections that are left, as if the operation hadn't met them.
func (w *work) finish() {
	w.hear()
	w.publish(false, true)
	w.op.mu.Lock()
	w.op.cancelled = true // so that a walk that goes on adds nothing
	all := w.op.fresh
	w.op.fresh = nil
	w.op.mu.Unlock()
	if w.walking != nil {
		w.op.tracker.abandonWalk(w.walking)
	}
	if !w.plan.lasts {
		return // the Drain beside it has listed them
	}
	for _, c := range all {
		c.Conn.state.drop(listed)
	}
	for c := range w.queue.All() {
		c.state.drop(listed)
	}
	for _, c := range slices.Concat(w.told, w.inUse) {
		c.Conn.state.drop(listed)
	}
}
