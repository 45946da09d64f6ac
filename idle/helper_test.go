package idle

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/idle/internal/clock"
)

// A loop is an event loop: it runs what is posted, one after the other.
type loop struct{ tasks chan func() }

func newLoop() *loop {
	l := &loop{make(chan func(), 64)}
	go func() {
		for task := range l.tasks {
			task()
		}
	}()
	return l
}

func (l *loop) post(task func()) { l.tasks <- task }
func (l *loop) stop()            { close(l.tasks) }

// do runs task on the loop and waits for it.
func (l *loop) do(task func()) {
	done := make(chan struct{})
	l.post(func() {
		defer close(done)
		task()
	})
	<-done
}

// newTracker returns a tracker that is closed when the test is over.
func newTracker(t testing.TB, p Policy, opts *Options) *Tracker {
	t.Helper()
	tr, err := New(p, opts)
	check(t, err)
	t.Cleanup(func() { tr.Close() })
	return tr
}

// check fails the test if there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ageClock makes the clock of a new tracker, in a bubble, that many ticks old,
// for the sake of what happens when the stamps wrap.
func ageClock(t *Tracker, ticks int64) {
	synctest.Wait() // the driver sleeps, and reads start again only when woken
	t.clock.Shift(time.Duration(ticks) * t.clock.Tick)
}

// runEasily has any activity wake the clock of a new tracker, in a bubble, and keep it
// running for quietTicks. So its stamps are those that the driver has copied.
func runEasily(t *Tracker) {
	synctest.Wait()
	t.clock.Tune(clock.Tuning{Each: never / 2, Burst: time.Second, Few: 1, Need: quietTicks, Most: quietTicks})
}

const quietTicks = 64

// defaultTick is that of trackers under test.
const defaultTick = 10 * time.Millisecond

// A rig is a tracker under test, in a bubble. Its connections live on a shard
// that the driver owns, or on an event loop.
type rig struct {
	*testing.T
	*Tracker
	shard *Shard // the loop's, or nil
	loop  *loop
}

// onBoth runs a test in virtual time on both kinds of shard.
func onBoth(t *testing.T, p Policy, opts *Options, test func(*rig)) {
	t.Run("driver", func(t *testing.T) { onDriver(t, p, opts, test) })
	t.Run("loop", func(t *testing.T) { inBubble(t, p, opts, true, test) })
}

func onDriver(t *testing.T, p Policy, opts *Options, test func(*rig)) {
	inBubble(t, p, opts, false, test)
}

func inBubble(t *testing.T, p Policy, opts *Options, looped bool, test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var full Options
		if opts != nil {
			full = *opts
		}
		if full.Tick == 0 {
			full.Tick = defaultTick
		}
		tr, err := New(p, &full)
		check(t, err)
		runEasily(tr)
		r := &rig{T: t, Tracker: tr}
		if looped {
			r.addLoop()
		}
		defer r.end()
		test(r)
	})
}

// addLoop gives r a loop.
func (r *rig) addLoop() {
	var err error
	r.loop = newLoop()
	r.shard, err = r.NewShard(func(pass func()) error { r.loop.post(pass); return nil })
	check(r, err)
}

// end closes what is open still. That the bubble ends then shows that no
// goroutine is left.
func (r *rig) end() {
	r.closeShard()
	if _, err := r.Tracker.Close(); err != nil && err != ErrClosed {
		r.Error(err)
	}
	if r.loop != nil {
		r.loop.stop() // the driver may have been posting a pass before
	}
}

func (r *rig) closeShard() (live []any) {
	if r.shard != nil {
		r.do(func() { live, _ = r.shard.Close() })
	}
	return live
}

// do runs f where connections may be used.
func (r *rig) do(f func()) {
	if r.loop != nil {
		r.loop.do(f)
	} else {
		f()
	}
}

// tryTrack and track begin to track o.
func (r *rig) tryTrack(c *Conn, o any) (err error) {
	r.do(func() { err = r.trackOf()(c, o, hooksOf(o)) })
	return err
}

// trackOf returns the method Track of the tracker, or of the loop's shard.
func (r *rig) trackOf() func(*Conn, any, *Hooks) error {
	if r.shard != nil {
		return r.shard.Track
	}
	return r.Tracker.Track
}

func (r *rig) track(c *Conn, o any) {
	r.Helper()
	check(r, r.tryTrack(c, o))
}

// with tracks p, and peer a new one.
func (r *rig) with(p *peer) *peer {
	r.Helper()
	p.born = time.Now()
	r.track(&p.Conn, p)
	return p
}

func (r *rig) peer() *peer { return r.with(&peer{}) }

// driven tracks n peers on the driver's shards, beside those of a loop.
func (r *rig) driven(n int) (all []*peer) {
	r.Helper()
	for range n {
		p := &peer{}
		check(r, r.Tracker.Track(&p.Conn, p, hooksOf(p)))
		all = append(all, p)
	}
	return all
}

// wait lets time pass, and what happens in it happen. The race detector learns
// from a lock that what the test did before comes first, and what it does after
// comes last.
func (r *rig) wait(d time.Duration) {
	r.Tracker.isClosed() // takes a lock
	time.Sleep(d)
	synctest.Wait()
}

// late is how late a timeout may be: two ticks, and the driver's slack.
func (r *rig) late() time.Duration { return 2*r.opts.Tick + r.clock.Slack }

func (r *rig) phaseOf(p Policy) *Phase {
	r.Helper()
	ph, err := r.Tracker.Phase(p)
	check(r, err)
	return ph
}

// dies waits until p is timed out, which must happen when the limit has passed
// since the given instant, not before, and for the given reason.
func (r *rig) dies(p *peer, since time.Time, limit time.Duration, why Reason) {
	r.Helper()
	most := limit + r.late() + r.measuring(p, why)
	r.wait(time.Until(since.Add(most + 1)))
	if len(p.expired) != 1 {
		r.Fatalf("%v after %v was to pass: expired %v", why, limit, p.expired)
	}
	if at := p.at.Sub(since); at < limit || at > most || p.expired[0].Reason != why {
		r.Fatalf("expired after %v by %v; want %v by %v", at, p.expired[0], limit, why)
	}
}

// measuring is how much later a minimum rate may pass, if waits aren't measured yet.
func (r *rig) measuring(p *peer, why Reason) time.Duration {
	grace := map[Reason]int64{ReasonMinReadRate: p.limits().in.grace, ReasonMinWriteRate: p.limits().out.grace}[why]
	if grace == 0 || p.isExact() {
		return 0
	}
	return time.Duration(grace)/measuredAfter + r.late()
}

// measure has waits of p measured, as if a minimum rate had looked missed.
func (p *peer) measure() { p.state.move(live, exact, 0) }

// lives waits for d, in which p must not be timed out.
func (r *rig) lives(p *peer, d time.Duration) {
	r.Helper()
	r.wait(d)
	if len(p.expired) > 0 || !p.Live() {
		r.Fatalf("%v ago timed out: %v", time.Since(p.at), p.expired)
	}
}

// A peer is a connection and its owner in one, as idlenet's are. It has those hooks whose functions are set, and Expire and OnDrain. It
// notes their calls.
type peer struct {
	Conn
	n    int // any number
	born time.Time

	keep     func(*TimeoutError) bool // OnTimeout
	ping     func() error
	probe    func() SocketState
	unsent   func() int
	onDrain  func()
	onEnd    func()
	onExpire func()

	asked   []Reason
	when    []time.Time // it was asked
	pings   []time.Duration
	probes  int
	drained []time.Time
	expired []*TimeoutError
	at      time.Time // of Expire
}

func (p *peer) hooks() *Hooks {
	h := &Hooks{OnDrain: func(any) {
		if p.drained = append(p.drained, time.Now()); p.onDrain != nil {
			p.onDrain()
		}
	}, Expire: func(_ any, err *TimeoutError) {
		if p.expired, p.at = append(p.expired, err), time.Now(); p.onExpire != nil {
			p.onExpire()
		}
	}}
	if p.keep != nil {
		h.OnTimeout = func(_ any, err *TimeoutError) bool {
			p.asked, p.when = append(p.asked, err.Reason), append(p.when, time.Now())
			return p.keep(err)
		}
	}
	if p.ping != nil {
		h.Ping = func(any) error { p.pings = append(p.pings, time.Since(p.born)); return p.ping() }
	}
	if p.probe != nil {
		h.Probe = func(any, Reason) SocketState { p.probes++; return p.probe() }
	}
	if p.unsent != nil {
		h.Unsent = func(any) int { return p.unsent() }
	}
	if p.onEnd != nil {
		h.OnEnd = func(any, *TimeoutError) { p.onEnd() }
	}
	return h
}

// err returns what p was ended with, or nil.
func (p *peer) err() *TimeoutError {
	if len(p.expired) == 0 {
		return nil
	}
	return p.expired[0]
}

// toldAt is when OnDrain was called last.
func (p *peer) toldAt() (at time.Time) {
	if n := len(p.drained); n > 0 {
		at = p.drained[n-1]
	}
	return at
}

// unansweredPing is a ping to which there's no answer.
func unansweredPing() error { return nil }

// calling returns a peer that has all hooks that a limit may call, and calls a function with their names.
func calling(call func(hook string)) *peer {
	return &peer{
		keep:     func(*TimeoutError) bool { call("OnTimeout"); return false },
		ping:     func() error { call("Ping"); return nil },
		probe:    func() SocketState { call("Probe"); return SocketState{} },
		onDrain:  func() { call("OnDrain") },
		onExpire: func() { call("Expire") },
	}
}

// pinged, keeper and prober track a peer that is pinged, asked or probed.
func (r *rig) pinged() *peer { return r.with(&peer{ping: unansweredPing}) }

func (r *rig) keeper(keep func(*TimeoutError) bool) *peer {
	return r.with(&peer{keep: keep, ping: unansweredPing})
}

func (r *rig) prober(probe func() SocketState) *peer { return r.with(&peer{probe: probe}) }

// hooksOf returns the hooks of a peer, or plain ones.
func hooksOf(o any) *Hooks {
	if p, ok := o.(*peer); ok {
		return p.hooks()
	}
	return plainHooks()
}

func plainHooks() *Hooks { return &Hooks{Expire: func(any, *TimeoutError) {}} }

// isClosed reports whether done is closed.
func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
