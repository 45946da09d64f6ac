// Package control controls trackers at random, as operators do, while tests use their connections:
// it replaces policies, sets and lifts capacities, visits and ends connections, and begins,
// replaces and cancels drains.
package control

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"
	"unsafe"

	"github.com/idlewheel/idlewheel/idle"
	"github.com/idlewheel/idlewheel/idle/internal/words"
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
		c := &controller{Rand: rand.New(rand.NewPCG(seed, uint64(i))), ctx: ctx, tracker: t, known: map[string]bool{}}
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
	known   map[string]bool // names of phases that connections were in
	phases  []phase
	drain   *idle.Draining // the last one
}

// A phase is one whose policy may be replaced, and its policy as it was found.
type phase struct {
	*idle.Phase
	rest idle.Policy
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
	if c.drain != nil {
		c.drain.Cancel()
	}
	c.tracker.SetCapacity(idle.Capacity{})
	for _, p := range c.phases {
		p.SetPolicy(p.rest)
	}
}

func (c *controller) takeTurn() error {
	switch c.IntN(9) {
	case 0, 1:
		return c.setPolicies()
	case 2, 3:
		return c.visit()
	case 4:
		return c.tracker.SetCapacity(c.capacity())
	case 5, 6:
		return c.tracker.SetCapacity(idle.Capacity{})
	case 7:
		return c.drainAll()
	}
	c.tracker.EvictIdle(1 + c.IntN(2))
	return nil
}

// upTo returns a duration of less than d.
func (c *controller) upTo(d time.Duration) time.Duration { return time.Duration(c.Int64N(int64(d))) }

// millis is upTo in whole milliseconds.
func (c *controller) millis(d time.Duration) time.Duration {
	return c.upTo(d).Truncate(time.Millisecond)
}

// setPolicies replaces the policies of some phases, or restores them.
func (c *controller) setPolicies() error {
	for _, p := range c.phases {
		policy := p.rest
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
	for _, limit := range []*time.Duration{&p.IdleTimeout, &p.ReadTimeout, &p.WriteTimeout, &p.PhaseTimeout, &p.MinReadRate.Grace, &p.MinWriteRate.Grace} {
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
	for _, limit := range []*time.Duration{&p.IdleTimeout, &p.ReadTimeout, &p.PhaseTimeout} {
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
	if p.ExplicitUse = c.IntN(2) == 0; !p.ExplicitUse && p.Heartbeat.Interval > 0 && !p.Heartbeat.Passive {
		p.IdleTimeout = min(p.IdleTimeout, p.Heartbeat.Interval)
	}
	return p
}

// visit visits all connections, finds phases whose policies may be replaced, and ends some
// connections.
func (c *controller) visit() error {
	all, shed := c.IntN(2) == 0, c.IntN(4)
	var found []*idle.Phase
	err := c.tracker.Visit(c.ctx, func(i idle.Info) {
		if !c.known[i.Phase] {
			c.known[i.Phase] = true
			found = append(found, phaseOf(&i))
		}
		i.Unsent()
		switch {
		case shed == 0 && i.Idle > 20*time.Millisecond && (all || c.IntN(2) == 0):
			i.EndIfIdle("idle")
		case shed == 1 && c.IntN(10) == 0:
			i.End("by hand")
		}
	})
	for _, p := range found {
		if p.SetPolicy(p.Policy()) == nil { // the initial phase of HTTP is fixed
			c.phases = append(c.phases, phase{p, p.Policy()})
		}
	}
	return err
}

// phaseOf returns the phase of a connection that is being visited, which users know only by its name.
func phaseOf(i *idle.Info) *idle.Phase {
	conn := reflect.ValueOf(i).Elem().FieldByName("conn")
	at := conn.Elem().FieldByName("phase")
	if at.Type() != reflect.TypeFor[words.Pointer[idle.Phase]]() {
		panic(fmt.Sprintf("control: Conn has a phase of type %v", at.Type()))
	}
	return (*words.Pointer[idle.Phase])(unsafe.Pointer(at.UnsafeAddr())).Load()
}

// capacity returns one that may be exceeded.
func (c *controller) capacity() (to idle.Capacity) {
	to.MaxConns, to.MinIdle = c.IntN(6), c.millis(20*time.Millisecond)
	for _, p := range c.phases {
		if c.IntN(8) == 0 {
			to.Exempt = append(to.Exempt, p.Phase)
		}
	}
	return to
}

// drainAll begins a drain, which may replace another one, or cancels one. It leaves one of the
// server's own shutdown alone.
func (c *controller) drainAll() (err error) {
	if d := c.tracker.Draining(); d != nil {
		switch {
		case d != c.drain:
			return nil
		case c.IntN(2) == 0:
			d.Cancel()
			return nil
		}
	}
	d := idle.Drain{Duration: c.millis(30 * time.Millisecond), CloseDelay: c.millis(20 * time.Millisecond)}
	if c.IntN(4) == 0 {
		d.ForceAfter = d.Duration + d.CloseDelay
	}
	c.drain, err = c.tracker.Drain(d)
	return err
}
