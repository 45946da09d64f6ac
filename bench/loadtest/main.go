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
	"flag"
	"fmt"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

func main() { newProgram().Main() }

func newProgram() *program.Program[*report] {
	c := &config{scenario: scenarios()[0]}
	return &program.Program[*report]{
		Name:  "loadtest",
		Does:  "Loadtest puts mock connections through idlewheel's tracker, and checks which ones were closed,\nwhen, and why.",
		Flags: c.define,
		Check: c.check,
		Begin: func() string {
			return fmt.Sprintf("loadtest: %s mock connections, scenario %s; about %v", table.Group(c.conns), c.scenario.name, c.duration+5*time.Second)
		},
		Run: c.run,
	}
}

// config is what the flags say.
type config struct {
	scenario  scenario
	conns     int
	duration  time.Duration
	idle      time.Duration
	heartbeat time.Duration // 0: none
}

const (
	tick = 10 * time.Millisecond
	day  = 24 * time.Hour
)

func (c *config) define(fs *flag.FlagSet) {
	fs.IntVar(&c.conns, "conns", 1_000_000, "how many connections there are")
	fs.Func("scenario", scenarioUsage(), c.setScenario)
	fs.DurationVar(&c.duration, "duration", 0, "how long the connections live; setting up and measuring comes on top; 0 for 20s, or 40s with a scenario")
	fs.DurationVar(&c.idle, "idle", 5*time.Second, "the idle timeout")
	fs.DurationVar(&c.heartbeat, "heartbeat", 2*time.Second, "the heartbeat interval of the connections that have one; half as long again makes them stale; 0 for none")
}

// check checks the flags. A limit of less than four ticks would test rounding, and not a tracker.
func (c *config) check() error {
	err := cmp.Or(
		program.Within("conns", c.conns, 1, 100_000_000, ""),
		program.Within("idle", c.idle, 4*tick, day, ""),
	)
	if c.isSteered() {
		c.heartbeat, c.duration = 0, cmp.Or(c.duration, 40*time.Second)
		return cmp.Or(err, program.Within("duration", c.duration, 8*c.idle, day, fmt.Sprintf(", eight times the -idle of %v or more", c.idle)))
	}
	c.duration = cmp.Or(c.duration, 20*time.Second)
	if c.heartbeat != 0 {
		err = cmp.Or(err, program.Within("heartbeat", c.heartbeat, 4*tick, day, "; or 0 for none"))
	}
	return cmp.Or(err, program.Within("duration", c.duration, c.longest()+c.longest()/4, day,
		fmt.Sprintf(" with -idle %v and -heartbeat %v, so that what falls silent is due before the end", c.idle, c.heartbeat)))
}
