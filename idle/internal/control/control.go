// Package control controls trackers at random, as operators do, while tests use their connections:
// it replaces policies, sets and lifts capacities, takes censuses, begins, pauses and cancels
// operations, ends single connections, and has policies follow a pressure.
package control

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/pressure"
)

// turn is the average time between two things that are done to a tracker.
const turn = 3 * time.Millisecond

// Start controls trackers until stop is called, each on a goroutine of its own. What is done is
// drawn from seed. When stop has returned, nothing is under way, and the policies are those of the
// beginning. stop returns unexpected errors.
func Start(seed uint64, trackers ...*idle.Tracker) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	errs := make([]error, len(trackers))
	var all sync.WaitGroup
	for i, t := range trackers {
		c := &controller{
			Rand: rand.New(rand.NewPCG(seed, uint64(i))), ctx: ctx, tracker: t,
			rest: map[*idle.Phase]idle.Policy{}, follower: map[*idle.Phase]*pressure.Follower{},
		}
		all.Go(func() { errs[i] = c.run() })
	}
	return func() error {
		cancel()
		all.Wait()
		return errors.Join(errs...)
	}
}

type controller struct {
	*rand.Rand
	ctx     context.Context
	tracker *idle.Tracker

	phases   []*idle.Phase               // that connections were in
	rest     map[*idle.Phase]idle.Policy // their policies as they were found
	follower map[*idle.Phase]*pressure.Follower
	op       *idle.Operation
	paused   bool
}

// run takes turns until the tracker is closed or ctx is done.
func (c *controller) run() error {
	defer c.leave()
	for next := time.NewTimer(0); ; next.Reset(c.upTo(2 * turn)) {
		select {
		case <-c.ctx.Done():
			return nil
		case <-next.C:
		}
		switch err := c.takeTurn(); {
		case errors.Is(err, idle.ErrClosed), c.ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
	}
}

// leave ends what is under way, and restores the tracker unless it's closed.
func (c *controller) leave() {
	for _, f := range c.follower {
		f.Stop()
		<-f.Done()
	}
	for _, op := range c.tracker.Operations() {
		op.Cancel()
		<-op.Done()
	}
	c.tracker.SetCapacity(idle.Capacity{})
	for _, p := range c.phases {
		p.SetPolicy(c.rest[p])
	}
}

func (c *controller) takeTurn() error {
	switch c.IntN(10) {
	case 0, 1:
		return c.setPolicies()
	case 2:
		return c.census()
	case 3:
		return c.tracker.SetCapacity(c.capacity())
	case 4, 5:
		return c.tracker.SetCapacity(idle.Capacity{})
	case 6, 7:
		return c.operate()
	case 8:
		return c.press()
	}
	c.tracker.EvictIdle(1 + c.IntN(2))
	return nil
}

// upTo returns a duration of less than d.
func (c *controller) upTo(d time.Duration) time.Duration { return time.Duration(c.Int64N(int64(d))) }

// setPolicies replaces the policies of some phases, or restores them.
func (c *controller) setPolicies() error {
	for _, p := range c.phases {
		policy := c.rest[p]
		switch c.IntN(3) {
		case 0:
			continue
		case 1:
			policy = c.vary(policy)
		}
		if err := p.SetPolicy(policy); err != nil {
			return err
		}
	}
	return nil
}

// vary returns p with some limits longer, shorter or off, and sometimes a MaxAge.
func (c *controller) vary(p idle.Policy) idle.Policy {
	for _, limit := range []*time.Duration{&p.IdleTimeout, &p.ReadTimeout, &p.ReadTotal, &p.WriteTimeout, &p.PhaseTimeout, &p.MinReadRate.Grace, &p.MinWriteRate.Grace} {
		switch c.IntN(4) {
		case 0:
			*limit /= 2
		case 1:
			*limit *= 2
		}
	}
	for _, rate := range []*idle.Rate{&p.MinReadRate, &p.MinWriteRate} {
		if c.IntN(4) == 0 {
			*rate = idle.Rate{}
		}
	}
	for _, limit := range []*time.Duration{&p.IdleTimeout, &p.ReadTimeout, &p.ReadTotal, &p.PhaseTimeout} {
		if c.IntN(8) == 0 {
			*limit = 0
		}
	}
	switch c.IntN(8) {
	case 0:
		p.Heartbeat = idle.Heartbeat{}
	case 1:
		p.Heartbeat = idle.Heartbeat{Interval: 100 * time.Millisecond, Timeout: 50 * time.Millisecond, Passive: true}
	case 2:
		p.MaxAge, p.MaxAgeGrace = 500*time.Millisecond, 100*time.Millisecond
	}
	return p
}

// census finds phases whose policy may be replaced, lists connections, and may end one of them.
func (c *controller) census() error {
	census, err := c.tracker.Census(c.ctx, idle.Query{Sort: idle.MostIdle})
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(census.Phases)) {
		p := census.Phases[name].Phase
		// the initial phase of HTTP has no connections but for a moment, and is fixed
		fixed := c.tracker.Policy().Handshake && p == c.tracker.Initial()
		if _, known := c.rest[p]; !known && !fixed {
			c.phases = append(c.phases, p)
			c.rest[p] = p.Policy()
		}
	}
	some, err := census.Page(c.ctx, 0, 10)
	if n := len(some); err == nil && n > 0 && c.IntN(2) == 0 {
		some[c.IntN(n)].End("by hand")
	}
	return err
}

// capacity returns one that may be exceeded.
func (c *controller) capacity() (to idle.Capacity) {
	to.MaxConns = c.IntN(6)
	to.MinIdle = c.upTo(20*time.Millisecond) / time.Millisecond * time.Millisecond
	if c.IntN(2) == 0 {
		to.PerKey = 1 + c.IntN(6)
	}
	if c.IntN(4) == 0 {
		to.New = idle.Quota{PerSecond: 100}
	}
	if c.tracker.Policy().Handshake && c.IntN(2) == 0 {
		to.Handshakes = 1 + c.IntN(3)
	}
	for _, p := range c.phases {
		if c.IntN(8) == 0 {
			to.Exempt = append(to.Exempt, p)
		}
	}
	return to
}

// operate begins a Drain or a Shed, or pauses, resumes or cancels the one that is under way.
func (c *controller) operate() (err error) {
	if c.op != nil {
		select {
		case <-c.op.Done():
			c.op = nil
		default:
			switch c.paused = !c.paused; {
			case c.IntN(3) == 0:
				c.op.Cancel()
			case c.paused:
				c.op.Pause()
			default:
				c.op.Resume()
			}
			return nil
		}
	}
	c.paused = false
	duration, delay := c.upTo(30*time.Millisecond), c.upTo(20*time.Millisecond)
	var force time.Duration
	if c.IntN(4) == 0 {
		force = duration + delay
	}
	duration, delay, force = duration.Round(time.Millisecond), delay.Round(time.Millisecond), force.Round(time.Millisecond)
	if c.IntN(2) == 0 {
		c.op, err = c.tracker.Drain(idle.Drain{Duration: duration, CloseDelay: delay, ForceAfter: force})
		if errors.Is(err, idle.ErrDraining) { // by the server's own shutdown
			c.op, err = nil, nil
		}
		return err
	}
	shed := idle.Shed{Duration: duration, CloseDelay: delay, ForceAfter: force, Cause: "shed"}
	switch c.IntN(4) {
	case 0:
		shed.Max = 1 + c.IntN(3)
	case 1:
		shed.Fraction = 0.5
	case 2:
		shed.Idle = 20 * time.Millisecond
	case 3:
		shed.Filter = func(any) bool { return rand.IntN(2) == 0 } // passes call it
	}
	c.op, err = c.tracker.Shed(shed)
	return err
}

// press has the policy of a phase follow a pressure that comes and goes, or ends that.
func (c *controller) press() error {
	for p, f := range c.follower {
		f.Stop()
		delete(c.follower, p)
		return nil
	}
	if len(c.phases) == 0 {
		return nil
	}
	p := c.phases[c.IntN(len(c.phases))]
	full := p.Policy()
	for _, limit := range []*time.Duration{&full.IdleTimeout, &full.ReadTimeout, &full.ReadTotal, &full.WriteTimeout, &full.PhaseTimeout} {
		*limit = *limit / 2 / time.Millisecond * time.Millisecond
	}
	if !full.SetsLimit() {
		return nil
	}
	f, err := pressure.Follow(c.tracker, pressure.Config{
		Read:   func() (float64, error) { return rand.Float64(), nil }, // on a goroutine of its own
		Every:  10 * time.Millisecond,
		Phases: map[*idle.Phase]idle.Policy{p: full},
		Logger: slog.New(slog.DiscardHandler), // a policy may be replaced by one that is tighter than full
	})
	if err == nil {
		c.follower[p] = f
	}
	return err
}
