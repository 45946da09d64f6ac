// Loadtest runs a million mock connections through a real tracker, in real time, and
// checks the result against an oracle that knows what each connection did: which ones
// had to be closed, when, and for which reason.
//
//	go -C bench run ./loadtest                  # about 25 s
//	go -C bench run ./loadtest -conns 10000000  # ten million
//	go -C bench run ./loadtest -scenario drain  # drained while they are open, about 40 s
//	go -C bench run ./loadtest -json            # one JSON object on stdout
//
// Some connections are active all the time, some fall silent, some send heartbeats, and
// some end by themselves before their deadline. The exit status is 0 if the tracker
// closed exactly those that were due, 1 if not, and 2 if the test couldn't run as asked.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

func main() { newProgram().Main() }

func newProgram() *program.Program[*report] {
	c := &config{}
	return &program.Program[*report]{
		Name:  "loadtest",
		Does:  "Loadtest puts mock connections through idlewheel's tracker, and checks which ones were closed,\nwhen, and why.",
		Flags: c.define,
		Check: c.check,
		Begin: func() string { return fmt.Sprintf("%s; about %v", c.title(), c.duration+5*time.Second) },
		Run: func(ctx context.Context, show func(string, ...any)) (*report, error) {
			return runMock(ctx, *c, show)
		},
	}
}

// config is what the flags say.
type config struct {
	limits
	scenario *scenario // nil: idle
	over     time.Duration
	conns    int
	duration time.Duration
	active   float64
	seed     uint64
}

func (c *config) title() string {
	text := fmt.Sprintf("loadtest: %s mock connections", table.Group(c.conns))
	if c.scenario != nil {
		text += ", " + c.scenario.name
	}
	return text
}

const (
	maxConns = 100_000_000
	minTicks = 4 // a shorter limit would test rounding, and not a tracker
	day      = 24 * time.Hour
)

func (c *config) define(fs *flag.FlagSet) {
	fs.IntVar(&c.conns, "conns", 1_000_000, "how many connections there are")
	fs.Func("scenario", scenarioUsage(), c.setScenario)
	fs.DurationVar(&c.over, "over", 0, "with -scenario drain, how long the drain takes; 0 for half of -duration")
	fs.DurationVar(&c.duration, "duration", 0, "how long the connections live; setting up and measuring comes on top; 0 for 20s, or 40s with a scenario")
	fs.DurationVar(&c.Idle, "idle", 5*time.Second, "the idle timeout")
	fs.DurationVar(&c.Heartbeat, "heartbeat", 2*time.Second, "the heartbeat interval of the connections that have one; half as long again makes them stale; 0 for none")
	fs.Float64Var(&c.active, "active", 0.5, "the share of connections, from 0 to 1, that are active all the time")
	fs.IntVar(&c.Shards, "shards", 0, "how many shards the tracker has; 0 for GOMAXPROCS")
	fs.DurationVar(&c.Tick, "tick", 10*time.Millisecond, "the tracker's tick")
	fs.Uint64Var(&c.seed, "seed", 1, "what the connections' lives are drawn from")
}

func (c *config) check() error {
	err := cmp.Or(
		program.Within("conns", c.conns, 1, maxConns, ""),
		program.Within("tick", c.Tick, time.Millisecond, day, ""),
		program.Within("idle", c.Idle, minTicks*c.Tick, day, fmt.Sprintf(", %d ticks or more", minTicks)),
		program.Within("active", c.active, 0, 1, ""),
		program.Within("shards", c.Shards, 0, 1<<12, "; 0 is for GOMAXPROCS"),
	)
	if c.scenario != nil {
		return cmp.Or(err, c.checkScenario())
	}
	c.duration = cmp.Or(c.duration, 20*time.Second)
	if c.Heartbeat != 0 {
		err = cmp.Or(err, program.Within("heartbeat", c.Heartbeat, minTicks*c.Tick, day, "; or 0 for none"))
	}
	return cmp.Or(err, program.Within("duration", c.duration, c.longest()+c.longest()/4, day,
		fmt.Sprintf(" with -idle %v and -heartbeat %v, so that what falls silent is due before the end", c.Idle, c.Heartbeat)))
}

// rampUp returns how long it takes to open the connections: a second for each million.
func (c *config) rampUp() time.Duration {
	return min(time.Duration(c.conns)*time.Microsecond, c.duration/8)
}
