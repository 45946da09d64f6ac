package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/idle"
)

// A scenario steers the connections while they are open.
//
// In the first quarter of the time nothing is done, so that idle times spread.
type scenario struct {
	name   string
	does   string
	quits  float64     // until this part of the time connections fall silent
	rest   restingTime // the limit that connections begin with
	reason idle.Reason // what connections are ended for

	// play steers the connections, and returns when nothing is left to do.
	play func(ctx context.Context, s *steering) error

	// window returns from when a connection may be ended, and by when it has to be.
	window func(s *steering, e *end, p *peer) (from, due int64)

	// check adds figures to the report, and what is wrong with them.
	check func(s *steering)
}

// A restingTime is a limit in terms of -idle; 0 is one that nobody reaches.
type restingTime int

const (
	unreachable = 10 * 24 * time.Hour
	noTime      = math.MaxInt64 // a time that does not come
)

var scenarios = []scenario{{
	name: "reload", does: "a shorter IdleTimeout for all, later a longer one",
	quits: 0.75, reason: idle.ReasonIdle, play: reload, window: inForce, check: checkReload,
}, {
	name: "drain", does: "all connections are ended evenly over -over, the most idle first",
	quits: 0.25, reason: idle.ReasonDrain, play: drain, window: inTurn, check: checkTurns,
}, {
	name: "shed", does: "the most idle 30 % are ended evenly over -over",
	quits: 0.25, reason: idle.ReasonShed, play: shed, window: inTurn, check: checkShed,
}, {
	name: "evict", does: "newcomers, 1 % a second, come when there is no room",
	quits: 0.25, reason: idle.ReasonEvict, play: evict, window: beyondGrace, check: checkEvict,
}, {
	name: "pressure", does: "the pressure goes from 0 to 0.5, to 1, and back to 0",
	quits: 0.75, rest: 3, reason: idle.ReasonIdle, play: press, window: inForce, check: checkRegimes,
}}

func (s *scenario) steers() bool { return s != nil }

func (s *scenario) String() string {
	if s == nil {
		return "idle"
	}
	return s.name
}

func scenarioUsage() string {
	text := "what is done with the connections while they are open; `name` is idle, the default: nothing"
	for _, s := range scenarios {
		text += fmt.Sprintf("; %s: %s", s.name, s.does)
	}
	return text
}

func (c *config) setScenario(name string) error {
	c.scenario = nil
	for i := range scenarios {
		if scenarios[i].name == name {
			c.scenario = &scenarios[i]
		}
	}
	if c.scenario.String() != name {
		return fmt.Errorf("it must be idle, reload, drain, shed, evict or pressure")
	}
	return nil
}

// checkSteering is check for a scenario.
func (c *config) checkSteering() error {
	if c.sockets > 0 {
		return fmt.Errorf("-scenario is %v with -sockets; it is for mock connections", c.scenario)
	}
	c.duration = cmp.Or(c.duration, 40*time.Second)
	c.over = cmp.Or(c.over, c.duration/2)
	c.Heartbeat = 0
	c.Rest = unreachable
	if c.scenario.rest > 0 {
		c.Rest = time.Duration(c.scenario.rest) * c.Idle
	}
	return cmp.Or(
		c.checkCommon(),
		program.Within("over", c.over, 100*c.Tick, day, ", 100 ticks or more"),
		program.Within("duration", c.duration, 8*c.Idle, day, fmt.Sprintf(", eight times the -idle of %v or more", c.Idle)),
	)
}

// quits returns until when connections fall silent.
func (c *config) quits() time.Duration {
	if c.scenario.steers() {
		return time.Duration(c.scenario.quits * float64(c.duration))
	}
	return c.duration - c.longest()
}
