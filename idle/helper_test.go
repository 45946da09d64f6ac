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
		if err != nil {
			t.Fatal(err)
		}
		runEasily(tr)
		r := &rig{T: t, Tracker: tr}
		if looped {
			r.loop = newLoop()
			r.shard, err = tr.NewShard(func(pass func()) error { r.loop.post(pass); return nil })
			if err != nil {
				t.Fatal(err)
			}
		}
		defer r.end()
		test(r)
	})
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
	if err := r.tryTrack(c, o); err != nil {
		r.Fatal(err)
	}
}

// peer tracks a new connection.
func (r *rig) peer() *peer {
	r.Helper()
	p := &peer{}
	r.track(&p.Conn, p)
	return p
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
	if err != nil {
		r.Fatal(err)
	}
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

// A peer is a connection and its owner in one, as idlenet's are.
type peer struct {
	Conn
	expired []*TimeoutError
	at      time.Time
}

func (p *peer) Expire(err *TimeoutError) { p.expired, p.at = append(p.expired, err), time.Now() }

// hooksOf returns hooks that call the methods of o, those that it has.
func hooksOf(o any) *Hooks {
	h := &Hooks{}
	if o, ok := o.(interface{ Ping() error }); ok {
		h.Ping = func(any) error { return o.Ping() }
	}
	if o, ok := o.(interface{ OnTimeout(*TimeoutError) bool }); ok {
		h.OnTimeout = func(_ any, err *TimeoutError) bool { return o.OnTimeout(err) }
	}
	if o, ok := o.(interface{ OnEnd(*TimeoutError) }); ok {
		h.OnEnd = func(_ any, err *TimeoutError) { o.OnEnd(err) }
	}
	if o, ok := o.(interface{ OnDrain() }); ok {
		h.OnDrain = func(any) { o.OnDrain() }
	}
	if o, ok := o.(interface{ Examine() SocketState }); ok {
		h.Probe = func(any, Reason) SocketState { return o.Examine() }
	}
	if o, ok := o.(interface{ Unsent() int }); ok {
		h.Unsent = func(any) int { return o.Unsent() }
	}
	if o, ok := o.(interface{ Expire(*TimeoutError) }); ok {
		h.Expire = func(_ any, err *TimeoutError) { o.Expire(err) }
	}
	return h
}

// isClosed reports whether done is closed.
func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
