package main

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/idle"
)

// Steered are the figures of a scenario.
type Steered struct {
	Scenario string `json:"scenario"`

	// StepsMaxUS is the longest time, in microseconds, from one connection that a walk
	// visited to the next in the same pass. That is a step: its lock is held in between.
	// Time in which the machine did something else is included.
	StepsMaxUS float64 `json:"steps_max_us"`
	StepsP99US float64 `json:"steps_p99_us"`

	// WalkS is how long a walk over all connections takes; in reload, how long until the
	// last connection is ended that is overdue by the new limit. WalkCPUS is the time of
	// the passes meanwhile.
	WalkS    float64 `json:"walk_s"`
	WalkCPUS float64 `json:"walk_cpu_s"`

	// RateErrorPct is how far the worst full second is from the mean of all, in percent. It
	// is of the turns: a connection in use ends later than it has its turn.
	RateErrorPct float64 `json:"rate_error_pct"`

	// OrderErrorPct is how far ends are from the most idle first. For drain and shed it
	// is by how much more idle than one that was ended another one was at the same time,
	// in percent of the range of idle times. For evict it is how many were more idle, in
	// percent of all.
	OrderErrorPct float64 `json:"order_error_pct"`

	Drained uint64 `json:"drained"`
	Shed    uint64 `json:"shed"`
	Evicted uint64 `json:"evicted"`
	Refused uint64 `json:"refused"`

	AdmissionNS    float64 `json:"admission_ns"`     // of a Track that evicts another connection, median
	AdmissionP99NS float64 `json:"admission_p99_ns"` // its 99th percentile
	EvictionUS     float64 `json:"eviction_us"`      // of the passes for each evicted connection

	Failures []string `json:"failures,omitempty"`
}

// A steering is the part of a run that plays a scenario.
type steering struct {
	*load
	tracker *idle.Tracker
	ends    []end // by id
	told    tally // when connections had their turn, by seconds since steering began

	begun, stop int64 // when connections are steered, and when the rest is ended
	regimes     []regime
	cause       string        // that ends must have
	grace       time.Duration // idle for less, nobody may be evicted
	room        int           // the capacity
	live        uint64        // how many were when it began

	step struct { // of a walk
		on   atomic.Bool
		last []atomic.Int64 // visit of each shard in this pass, 0 for none; a Tracker takes shards in turn
		took *spread.Spread
	}
}

// An end is what is known of a connection when it ends.
type end struct {
	at     int64
	last   int64 // as peer.last
	state  uint32
	reason idle.Reason
	cause  string
	again  bool // it has ended twice
}

func newSteering(l *load) *steering {
	s := &steering{load: l, ends: make([]end, len(l.peers))}
	s.step.took = spread.New()
	return s
}

func (s *steering) play(ctx context.Context, t *idle.Tracker) error {
	s.tracker = t
	if !s.await(ctx, 0.25) {
		return nil
	}
	if err := s.walk(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	s.live = t.Stats().Live
	s.begun = s.now()
	return s.cfg.scenario.play(ctx, s)
}

// await waits until a part of the time has passed. It reports whether ctx is not done.
func (s *steering) await(ctx context.Context, part float64) bool {
	return program.Sleep(ctx, time.Duration(part*float64(s.cfg.duration))-time.Since(s.start))
}

// walk measures a walk over all connections: a Shed that picks none of them.
func (s *steering) walk(ctx context.Context) error {
	s.step.last = make([]atomic.Int64, s.rep.Shards)
	s.step.on.Store(true)
	begun, busy := time.Now(), s.tracker.Stats().PassTotal
	op, err := s.tracker.Shed(idle.Shed{Filter: s.visit})
	if err != nil {
		return err
	}
	select {
	case <-op.Done():
	case <-ctx.Done():
		return nil
	}
	took := time.Since(begun)
	s.step.on.Store(false)
	s.rep.WalkS = table.Round(took.Seconds(), 3)
	s.rep.WalkCPUS = table.Round((s.tracker.Stats().PassTotal - busy).Seconds(), 3)
	s.rep.StepsMaxUS = micros(s.step.took.Most())
	s.rep.StepsP99US = micros(s.step.took.At(99))
	return nil
}

func micros(d time.Duration) float64 { return table.Round(float64(d)/float64(time.Microsecond), 1) }

// longestVisit is the time from one visit to the next within a step. What takes longer is
// a step.
const longestVisit = 5 * time.Microsecond

// visit is called in a pass for each connection that the walk visits. Passes of several
// shards may run at the same time.
func (s *steering) visit(owner any) bool {
	now := s.now()
	last := &s.step.last[int(owner.(*peer).id)%len(s.step.last)]
	if gap := time.Duration(now - last.Load()); last.Load() != 0 && gap > longestVisit {
		s.step.took.Add(gap)
	}
	last.Store(now)
	return false
}

// passed is called after each pass. Of passes that run at the same time, a step is lost.
func (s *steering) passed(took time.Duration) {
	if s.step.on.Load() {
		for i := range s.step.last {
			s.step.last[i].Store(0)
		}
	}
	s.passes.Add(took)
}

// walkLimit is how long a walk may take: a second for a million.
func (s *steering) walkLimit() time.Duration {
	return time.Second * time.Duration(max(s.cfg.conns, 1_000_000)) / 1_000_000
}

// allowance is how late the tracker may be.
func (s *steering) allowance() int64 { return int64(2*s.cfg.Tick + s.walkLimit()) }

func (s *steering) left(p *peer, now int64) {
	s.oracle.left(p)
	s.ends[p.id].at, s.ends[p.id].last = now, p.last.Load()
}

func (s *steering) expired(p *peer, now int64, err *idle.TimeoutError) {
	e := &s.ends[p.id]
	*e = end{now, p.last.Load(), p.state.Swap(expired), err.Reason, err.Cause, e.at != 0}
	s.oracle.mu.Lock()
	defer s.oracle.mu.Unlock()
	s.oracle.judgement.Closed++
}

// judge returns what became of all connections, and completes the figures.
func (s *steering) judge(end int64) judgement {
	var j judgement
	for i := range s.peers {
		if p := &s.peers[i]; p.began() {
			s.judgeOne(&j, p, end)
		}
	}
	j.Expected = j.Closed - j.Early + j.Missed
	sc := s.cfg.scenario
	if s.begun == 0 {
		return j // interrupted
	}
	s.limit("walk_s", s.rep.WalkS, s.walkLimit().Seconds())
	sc.check(s)
	s.limit("late_ms", table.Millis(s.oracle.late.Most()), table.Millis(time.Duration(s.allowance())))
	return j
}

// judgeOne adds what became of p, until the given end of the run.
func (s *steering) judgeOne(j *judgement, p *peer, over int64) {
	e := &s.ends[p.id]
	switch p.state.Load() {
	case left:
		j.Left++
		return
	case expired:
		j.Closed++
	default:
		now := end{at: over, last: p.last.Load(), state: p.state.Load()}
		if _, due := s.cfg.scenario.window(s, &now, p); s.begun > 0 && due != noTime && due+s.allowance() < over {
			j.Missed++
		} else {
			j.Live++
		}
		return
	}
	from, due := s.cfg.scenario.window(s, e, p)
	switch {
	case e.again || e.at < from && !s.excuses(e):
		j.Early++
		if from != noTime {
			j.EarliestMS = max(j.EarliestMS, table.Millis(time.Duration(from-e.at)))
		}
	case e.reason != s.cfg.scenario.reason || e.cause != s.cause:
		j.WrongReason++
	case e.at < from:
		j.Draws++
	case due != noTime:
		s.oracle.late.Add(time.Duration(max(0, e.at-due)))
	}
}

// excuses reports whether an end that was too early may have been decided upon before
// what makes it so: a belated activity, or work that has only just begun.
func (s *steering) excuses(e *end) bool {
	return e.last&belated != 0 || e.state == working && e.at-e.last <= s.pass()
}

// pass is the time of the longest pass. What was decided upon is done so much later.
func (s *steering) pass() int64 { return int64(s.passes.Most()) }

// limit notes a failure if a figure is more than it may be.
func (s *steering) limit(name string, is, most float64) {
	if !(is <= most) {
		s.fail("%s is %v, more than %v", name, is, most)
	}
}

func (s *steering) fail(format string, args ...any) {
	s.rep.Failures = append(s.rep.Failures, fmt.Sprintf(format, args...))
}

// table writes the figures.
func (r *Steered) table(w io.Writer, add func(name, format string, args ...any)) {
	if r.WalkS == 0 {
		return
	}
	table.Paragraph(w, "\nhow they were steered")
	add("a walk", "%v s, of which passes took %v s; a step p99 %v µs, at most %v µs", r.WalkS, r.WalkCPUS, r.StepsP99US, r.StepsMaxUS)
	if n := r.Drained + r.Shed; n > 0 {
		add("ended", "%s, at a rate that is off by %v %% in the worst second", table.Group(n), r.RateErrorPct)
		add("order", "off by %v %% of the range of idle times", r.OrderErrorPct)
	}
	if r.Evicted > 0 {
		add("evicted", "%s, each among the most idle %v %%; %s newcomers refused", table.Group(r.Evicted), r.OrderErrorPct, table.Group(r.Refused))
		add("an admission", "median %v ns, p99 %v ns; and %v µs of passes for an eviction", r.AdmissionNS, r.AdmissionP99NS, r.EvictionUS)
	}
}
