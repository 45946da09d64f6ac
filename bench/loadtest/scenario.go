package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
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
	quits      float64     // until this part of the time connections fall silent
	reason     idle.Reason // what connections are ended for

	// play does it, and returns when nothing is left to do.
	play func(s *steering, ctx context.Context) error

	// window returns from when a connection may be ended, and by when it has to be.
	window func(s *steering, e *end) (from, due int64)

	// check adds figures to the report, and what is wrong with them.
	check func(s *steering)
}

// Before a drain begins, all leavers have left: the turn of a connection that isn't there any more
// is left out, so the rate would not be even.
func scenarios() []scenario {
	return []scenario{
		{"reload", "a shorter IdleTimeout, by SetPolicy", 0.75, idle.ReasonIdle, (*steering).reload, (*steering).overdue, (*steering).checkReload},
		{"drain", "all connections are ended evenly over half of the time, the most idle first", 0.15, idle.ReasonDrain, (*steering).drain, (*steering).inTurn, (*steering).checkDrain},
		{"evict", "newcomers, 1 % per second, come when there is no room", 0.25, idle.ReasonEvict, (*steering).evict, (*steering).beyondGrace, (*steering).checkEvict},
	}
}

const (
	noTime = math.MaxInt64 // a time that does not come

	// What scenarios are held to, in percent.
	mostRateError = 10
	mostOver      = 2 // connections beyond the capacity
)

func scenarioUsage() string {
	var text strings.Builder
	text.WriteString("what is done to the connections while they are open; nothing without a `name`")
	for _, s := range scenarios() {
		fmt.Fprintf(&text, "; %s: %s", s.name, s.does)
	}
	return text.String()
}

func (c *config) setScenario(name string) error {
	all := scenarios()
	i := slices.IndexFunc(all, func(s scenario) bool { return s.name == name })
	if i < 0 {
		return errors.New("it must be reload, drain or evict")
	}
	c.scenario = &all[i]
	return nil
}

func (c *config) checkScenario() error {
	c.heartbeat, c.duration = 0, cmp.Or(c.duration, 40*time.Second)
	return program.Within("duration", c.duration, 8*c.idle, day, fmt.Sprintf(", eight times the -idle of %v or more", c.idle))
}

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

// A steering plays a scenario.
type steering struct {
	*load
	tracker *idle.Tracker
	told    tally // when connections had their turn, by seconds since begun

	begun, stop int64 // when it begins, and when the rest is ended
	changed     int64 // when the shorter limit was in force
}

func (s *steering) play(ctx context.Context, t *idle.Tracker) error {
	s.tracker = t
	if !s.await(ctx, 0.25) {
		return nil
	}
	s.begun = s.now()
	return s.cfg.scenario.play(s, ctx)
}

// await waits until a part of the time has passed, and reports whether ctx is not done.
func (s *steering) await(ctx context.Context, part float64) bool {
	return program.Sleep(ctx, time.Duration(part*float64(s.cfg.duration))-time.Since(s.start))
}

// window returns when the scenario may end a connection, when it has to, and for which reason.
func (s *steering) window(_ kind, e *end) (from, due int64, reason idle.Reason) {
	from, due = s.cfg.scenario.window(s, e)
	return from, due, s.cfg.scenario.reason
}

// check checks the figures.
func (s *steering) check() {
	s.cfg.scenario.check(s)
	s.limit("late_ms", table.Millis(s.late.At(100)), table.Millis(time.Duration(s.allowance())))
}

// limit notes a failure if a figure is more than it may be.
func (s *steering) limit(name string, is, most float64) {
	if !(is <= most) {
		s.fail("%s is %v, more than %v", name, is, most)
	}
}

func (s *steering) fail(format string, args ...any) {
	s.rep.Failures = append(s.rep.Failures, fmt.Sprintf(format, args...))
}

// reload makes the limit shorter.
func (s *steering) reload(ctx context.Context) error {
	err := s.tracker.SetPolicy(idle.Policy{IdleTimeout: s.cfg.idle})
	s.changed = s.now()
	s.await(ctx, 1)
	return err
}

// overdue is the window of a connection under the shorter limit. While the limit changes,
// it may be followed, and need not be.
func (s *steering) overdue(e *end) (from, due int64) {
	passed := e.last&^belated + int64(s.cfg.idle)
	return max(passed, s.begun), max(passed, s.changed)
}

// checkReload finds out when the last one was ended that was overdue.
func (s *steering) checkReload() {
	var last int64
	for i := range s.peers {
		if e := &s.peers[i].end; e.reason != 0 && e.last+int64(s.cfg.idle) < s.begun {
			last = max(last, e.at-s.begun)
		}
	}
	s.rep.ReloadS = table.Round(time.Duration(last).Seconds(), 3)
	s.limit("reload_s", s.rep.ReloadS, time.Duration(s.allowance()).Seconds())
	if s.rep.Closed == 0 {
		s.fail("nobody was ended")
	}
}

func (s *steering) drain(ctx context.Context) error {
	force := s.cfg.over() * 5 / 4
	s.stop = s.begun + int64(force)
	d, err := s.tracker.Drain(idle.Drain{Duration: s.cfg.over(), ForceAfter: force})
	if err != nil {
		return err
	}
	select {
	case <-d.Done():
	case <-ctx.Done():
	case <-time.After(force + 10*time.Second):
		s.fail("the drain has not finished: %d connections are left", d.Left())
	}
	return nil
}

// inTurn is the window of a connection in a drain. Those at work are ended when they
// finish, or at the stop.
func (s *steering) inTurn(e *end) (from, due int64) {
	from, due = s.begun, s.begun+int64(s.cfg.over())
	switch e.state {
	case working:
		from, due = s.stop, s.stop
	case rested:
		due = max(due, e.last)
	}
	return from, due
}

// checkDrain checks the rate. That the most idle go first is a matter of package idle's tests.
func (s *steering) checkDrain() {
	s.rep.RateErrorPct = table.Round(s.told.rateError(), 2)
	s.limit("rate_error_pct", s.rep.RateErrorPct, mostRateError)
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
func (c *config) evicts() bool { return c.scenario != nil && c.scenario.reason == idle.ReasonEvict }

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
func (s *steering) evict(ctx context.Context) error {
	room := int(s.tracker.Stats().Live)
	if err := s.tracker.SetCapacity(idle.Capacity{MaxConns: room, MinIdle: s.cfg.grace()}); err != nil {
		return err
	}
	var cost stats.Spread
	most, hooks, comers := uint64(0), s.hooks(), s.peers[s.cfg.conns:]
	batch := max(1, min(s.cfg.conns/1000, 100))
	for i := range comers {
		if i%batch == 0 {
			most = max(most, s.tracker.Stats().Live)
			if !s.await(ctx, 0.25+0.5*float64(i)/float64(len(comers))) {
				break
			}
		}
		p := &comers[i]
		p.kind, p.quit = silent, 0
		before := s.now()
		p.begin(before)
		err := s.tracker.Track(s.conn(p), p, hooks)
		cost.Add(time.Duration(s.now() - before))
		switch {
		case errors.Is(err, idle.ErrFull):
			p.state.Store(unborn)
		case err != nil:
			return err
		}
	}
	program.Sleep(ctx, 10*tick) // until evictions are carried out
	s.rep.AdmissionNS, s.rep.AdmissionP99NS = float64(cost.At(50)), float64(cost.At(99))
	over := 100 * float64(int(most)-room-batch) / float64(room)
	s.limit("connections beyond the capacity, in percent,", table.Round(over, 2), mostOver)
	return nil
}

// beyondGrace is the window of one that may be evicted.
func (s *steering) beyondGrace(e *end) (from, due int64) {
	if e.state == working {
		return noTime, noTime
	}
	return max(s.begun, e.last&^belated+int64(s.cfg.grace())), noTime
}

// checkEvict checks that nobody was refused. That is right, because there always are
// connections that may be evicted: a quarter are silent from the beginning, and newcomers
// take the place of a fifth.
func (s *steering) checkEvict() {
	st := s.tracker.Stats()
	s.limit("refused", float64(st.Refused), 0)
	if st.Evicted == 0 {
		s.fail("nobody was evicted")
	}
}
