package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/idle"
)

// A scenario does something to the connections while they are open. In the first quarter
// of the time nothing is done, so that idle times spread.
type scenario struct {
	name, does string
	quits      float64 // until this part of the time connections fall silent; 0 for idle

	// play does it, and returns when nothing is left to do.
	play func(l *load, ctx context.Context) error

	// window returns from when a connection may be ended, by when it has to be, and for which reason.
	window func(l *load, k kind, e *end) (from, due int64, reason idle.Reason)

	// check adds figures to the report, and what is wrong with them.
	check func(l *load)
}

// Before a drain begins, all leavers have left: the turn of a connection that isn't there any more
// is left out, so the rate would not be even.
func scenarios() []scenario {
	return []scenario{
		{"idle", "nothing, which is the default", 0, (*load).awaitEnd, (*load).due, func(*load) {}},
		{"reload", "a shorter IdleTimeout, by SetPolicy", 0.75, (*load).reload, (*load).overdue, (*load).checkReload},
		{"drain", "all connections are ended evenly over half of the time, the most idle first", 0.15, (*load).drain, (*load).inTurn, (*load).checkDrain},
		{"evict", "newcomers, 1 % per second, come when there is no room", 0.25, (*load).evict, (*load).beyondGrace, (*load).checkEvict},
	}
}

const (
	noTime = math.MaxInt64 // a time that does not come

	// What scenarios are held to, in percent.
	mostRateError = 10
	mostOver      = 2 // connections beyond the capacity
)

func scenarioUsage() string {
	text := "what is done to the connections while they are open, by `name`"
	for _, s := range scenarios() {
		text += fmt.Sprintf("; %s: %s", s.name, s.does)
	}
	return text
}

func (c *config) setScenario(name string) error {
	all := scenarios()
	i := slices.IndexFunc(all, func(s scenario) bool { return s.name == name })
	if i < 0 {
		return errors.New("it must be idle, reload, drain or evict")
	}
	c.scenario = all[i]
	return nil
}

// isSteered reports whether something is done to the connections.
func (c *config) isSteered() bool { return c.scenario.quits > 0 }

// over is how long a drain takes.
func (c *config) over() time.Duration { return c.duration / 2 }

// Steered are the figures of a scenario.
type Steered struct {
	Scenario string `json:"scenario"`

	// ReloadS is how long it takes until the last connection is ended that is overdue by
	// the new limit.
	ReloadS float64 `json:"reload_s,omitempty"`

	// RateErrorPct is how far the worst full second of a drain is from the mean.
	RateErrorPct float64 `json:"rate_error_pct,omitempty"`

	AdmissionNS    float64 `json:"admission_ns,omitempty"`     // of a Track that evicts another connection, median
	AdmissionP99NS float64 `json:"admission_p99_ns,omitempty"` // its 99th percentile

	Failures []string `json:"failures,omitempty"`
}

// await waits until a part of the time has passed, and reports whether ctx is not done.
func (l *load) await(ctx context.Context, part float64) bool {
	return program.Sleep(ctx, time.Duration(part*float64(l.cfg.duration))-time.Since(l.start))
}

// limit notes a failure if a figure is more than it may be.
func (l *load) limit(name string, is, most float64) {
	if !(is <= most) {
		l.fail("%s is %v, more than %v", name, is, most)
	}
}

func (l *load) fail(format string, args ...any) {
	l.rep.Failures = append(l.rep.Failures, fmt.Sprintf(format, args...))
}

// reload makes the limit shorter.
func (l *load) reload(ctx context.Context) error {
	err := l.tracker.SetPolicy(idle.Policy{IdleTimeout: l.cfg.idle})
	l.changed = l.now()
	l.await(ctx, 1)
	return err
}

// overdue is the window of a connection under the shorter limit. While the limit changes,
// it may be followed, and need not be.
func (l *load) overdue(_ kind, e *end) (from, due int64, reason idle.Reason) {
	passed := e.last&^belated + int64(l.cfg.idle)
	return max(passed, l.begun), max(passed, l.changed), idle.ReasonIdle
}

// checkReload finds out when the last one was ended that was overdue.
func (l *load) checkReload() {
	var last int64
	for i := range l.peers {
		if e := &l.peers[i].end; e.reason != 0 && e.last+int64(l.cfg.idle) < l.begun {
			last = max(last, e.at-l.begun)
		}
	}
	l.rep.ReloadS = table.Round(time.Duration(last).Seconds(), 3)
	l.limit("reload_s", l.rep.ReloadS, time.Duration(l.allowance()).Seconds())
	if l.rep.Closed == 0 {
		l.fail("nobody was ended")
	}
}

func (l *load) drain(ctx context.Context) error {
	force := l.cfg.over() * 5 / 4
	l.stop = l.begun + int64(force)
	d, err := l.tracker.Drain(idle.Drain{Duration: l.cfg.over(), ForceAfter: force})
	if err != nil {
		return err
	}
	select {
	case <-d.Done():
	case <-ctx.Done():
	case <-time.After(force + 10*time.Second):
		l.fail("the drain has not finished: %d connections are left", d.Left())
	}
	return nil
}

// inTurn is the window of a connection in a drain. Those at work are ended when they
// finish, or at the stop.
func (l *load) inTurn(_ kind, e *end) (from, due int64, reason idle.Reason) {
	from, due = l.begun, l.begun+int64(l.cfg.over())
	switch e.state {
	case working:
		from, due = l.stop, l.stop
	case rested:
		due = max(due, e.last)
	}
	return from, due, idle.ReasonDrain
}

// checkDrain checks the rate. That the most idle go first is a matter of package idle's tests.
func (l *load) checkDrain() {
	l.rep.RateErrorPct = table.Round(l.told.rateError(), 2)
	l.limit("rate_error_pct", l.rep.RateErrorPct, mostRateError)
}

// A tally counts by seconds.
type tally [1000]atomic.Int64

func (t *tally) add(at int64) { t[max(0, min(at/int64(time.Second), int64(len(t))-1))].Add(1) }

// rateError returns the deviation, in percent, of the worst second from the mean. It
// leaves out the first second and the last one, which are not full.
func (t *tally) rateError() (worst float64) {
	var seconds []float64
	var sum float64
	for i := range t {
		if n := t[i].Load(); n > 0 {
			seconds = append(seconds, float64(n))
		}
	}
	if len(seconds) < 3 {
		return 0
	}
	seconds = seconds[1 : len(seconds)-1]
	for _, n := range seconds {
		sum += n
	}
	mean := sum / float64(len(seconds))
	for _, n := range seconds {
		worst = max(worst, 100*math.Abs(n-mean)/mean)
	}
	return worst
}

// evicts reports whether connections are evicted.
func (c *config) evicts() bool { return c.scenario.name == "evict" }

// grace is how long a connection has to be idle until it may be evicted.
func (c *config) grace() time.Duration { return c.idle / 2 }

// newcomers returns how many connections come later: 1 % per second, in the second and
// third quarter of the time.
func (c *config) newcomers() int {
	if !c.evicts() {
		return 0
	}
	return int(float64(c.conns) / 100 * c.duration.Seconds() / 2)
}

// evict fills a tracker that has no room with newcomers, some at a time.
func (l *load) evict(ctx context.Context) error {
	room := int(l.tracker.Stats().Live)
	if err := l.tracker.SetCapacity(idle.Capacity{MaxConns: room, MinIdle: l.cfg.grace()}); err != nil {
		return err
	}
	var cost stats.Spread
	most, hooks, comers := uint64(0), l.hooks(), l.peers[l.cfg.conns:]
	batch := max(1, min(l.cfg.conns/1000, 100))
	for i := range comers {
		if i%batch == 0 {
			most = max(most, l.tracker.Stats().Live)
			if !l.await(ctx, 0.25+0.5*float64(i)/float64(len(comers))) {
				break
			}
		}
		p := &comers[i]
		p.kind, p.quit = silent, 0
		before := l.now()
		p.begin(before)
		err := l.tracker.Track(l.conn(p), p, hooks)
		cost.Add(time.Duration(l.now() - before))
		switch {
		case errors.Is(err, idle.ErrFull):
			p.state.Store(unborn)
		case err != nil:
			return err
		}
	}
	program.Sleep(ctx, 10*tick) // until evictions are carried out
	l.rep.AdmissionNS, l.rep.AdmissionP99NS = float64(cost.At(50)), float64(cost.At(99))
	over := 100 * float64(int(most)-room-batch) / float64(room)
	l.limit("connections beyond the capacity, in percent,", table.Round(over, 2), mostOver)
	return nil
}

// beyondGrace is the window of one that may be evicted.
func (l *load) beyondGrace(_ kind, e *end) (from, due int64, reason idle.Reason) {
	if e.state == working {
		return noTime, noTime, idle.ReasonEvict
	}
	return max(l.begun, e.last&^belated+int64(l.cfg.grace())), noTime, idle.ReasonEvict
}

// checkEvict checks that nobody was refused. That is right, because there always are
// connections that may be evicted: a quarter are silent from the beginning, and newcomers
// take the place of a fifth.
func (l *load) checkEvict() {
	st := l.tracker.Stats()
	l.limit("refused", float64(st.Refused), 0)
	if st.Evicted == 0 {
		l.fail("nobody was evicted")
	}
}
