// Loadtest runs connections by the million through the real tracker, in real
// time, and checks what comes out against an oracle that knows what every one
// of them did: who had to be closed, when, and for which reason.
//
//	go -C bench run ./loadtest                  # a million mock connections, about 25 s
//	go -C bench run ./loadtest -conns 10000000  # ten million
//	go -C bench run ./loadtest -scenario drain  # drained while they are open, about 40 s
//	go -C bench run ./loadtest -http :6060      # with a page about it while it runs
//	go -C bench run ./loadtest -sockets 5000    # real TCP connections over loopback
//	go -C bench run ./loadtest -json            # one JSON object on stdout
//	go -C bench run ./loadtest -report r.html   # a page with plots, too
//
// Some connections are active all the time, some fall silent, some beat, some
// end by themselves before their deadline. The exit status is 0 if the tracker
// closed exactly those that were due, and a scenario has kept to its figures,
// 1 if not, and 2 if the test could not be
// run as asked.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/page"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

func main() {
	child.Main(roles())
	newProgram().Main()
}

func roles() map[string]child.Role { return map[string]child.Role{"server": serve} }

func newProgram() *program.Program[*report] {
	c := &config{}
	return &program.Program[*report]{
		Name: "loadtest",
		Does: "Loadtest puts connections through idlewheel's tracker and checks who was closed,\nwhen, and why.",
		Exits: "Exit status: 0 if all is right, 1 if a connection was closed early, not at all, or for the wrong reason, or a figure of a scenario is too bad, " +
			"2 if the test could not be run, 130 after Ctrl-C.",
		Flags: c.define,
		Check: c.check,
		Begin: func() string {
			return fmt.Sprintf("%s\nrunning for %v; setting up and measuring takes some seconds more\n", c.title(), c.duration)
		},
		Run: func(ctx context.Context, stderr io.Writer) (*report, error) {
			if c.sockets > 0 {
				return runSockets(ctx, *c, stderr)
			}
			return runMock(ctx, *c, stderr)
		},
		Files: []program.File[*report]{{
			Flag: "report", Usage: "also write the result as an HTML page with plots to this `file`",
			Write: func(w io.Writer, r *report) error { return page.Write(w, c.title(), r.Table, r.plots()...) },
		}},
	}
}

// config is what the flags say.
type config struct {
	limits
	scenario *scenario // nil: idle
	over     time.Duration
	conns    int
	sockets  int // 0: mock connections
	duration time.Duration
	ramp     time.Duration
	active   float64
	seed     uint64
	http     string // address; empty: none
	progress progress.Flag
}

// title says how many connections there are, and of what kind.
func (c *config) title() string {
	if c.sockets > 0 {
		return fmt.Sprintf("loadtest: %s TCP connections over loopback, to a server process", table.Group(c.sockets))
	}
	text := fmt.Sprintf("loadtest: %s mock connections", table.Group(c.conns))
	if c.scenario.steers() {
		text += ", " + c.scenario.name
	}
	return text
}

const (
	maxConns = 100_000_000
	minTicks = 4 // a limit shorter than so many ticks tests rounding, not a tracker
	day      = 24 * time.Hour
)

func (c *config) define(fs *flag.FlagSet) {
	fs.IntVar(&c.conns, "conns", 1_000_000, "how many mock connections there are")
	fs.IntVar(&c.sockets, "sockets", 0, "instead, how many real TCP connections over loopback, to a server in a process of its own")
	fs.Func("scenario", scenarioUsage(), c.setScenario)
	fs.DurationVar(&c.over, "over", 0, "with -scenario drain or shed, over how long connections are ended; 0 for half of -duration")
	fs.DurationVar(&c.duration, "duration", 0, "how long the connections live; setting up and measuring comes on top; 0 for 20s, or 40s with a scenario other than idle")
	fs.DurationVar(&c.ramp, "ramp", 0, "over how long mock connections are opened, evenly; 0 for a second for each million, but at most an eighth of -duration; 1ns for at once")
	fs.DurationVar(&c.Idle, "idle", 5*time.Second, "the idle timeout")
	fs.DurationVar(&c.Heartbeat, "heartbeat", 2*time.Second, "the heartbeat interval of the connections that beat; half as long again makes them stale; 0 for none")
	fs.Float64Var(&c.active, "active", 0.5, "the share of connections, from 0 to 1, that are active all the time")
	fs.IntVar(&c.Shards, "shards", 0, "how many shards the tracker has; 0 for GOMAXPROCS")
	fs.DurationVar(&c.Tick, "tick", 10*time.Millisecond, "the tracker's tick")
	fs.Uint64Var(&c.seed, "seed", 1, "what the connections' lives are drawn from")
	fs.StringVar(&c.http, "http", "", httpUsage)
	fs.Var(&c.progress, "progress", "show progress on stderr: true, false, or auto for if it is a terminal")
}

func (c *config) check() error {
	c.Remote = c.sockets > 0
	if err := c.checkHTTP(); err != nil {
		return err
	}
	if c.scenario.steers() {
		return c.checkSteering()
	}
	c.duration = cmp.Or(c.duration, 20*time.Second)
	if c.Heartbeat != 0 {
		if err := program.Within("heartbeat", c.Heartbeat, minTicks*c.Tick, day, "; or 0 for none"); err != nil {
			return err
		}
	}
	return cmp.Or(
		c.checkCommon(),
		program.Within("duration", c.duration, c.longest()+c.longest()/4, day,
			fmt.Sprintf(" with -idle %v and -heartbeat %v, so that what falls silent is due before the end", c.Idle, c.Heartbeat)),
	)
}

func (c *config) checkCommon() error {
	return cmp.Or(
		program.Within("conns", c.conns, 1, maxConns, ""),
		program.Within("sockets", c.sockets, 0, maxConns, "; 0 is for mock connections"),
		program.Within("tick", c.Tick, time.Millisecond, day, ""),
		program.Within("idle", c.Idle, minTicks*c.Tick, day, fmt.Sprintf(", %d ticks or more", minTicks)),
		program.Within("ramp", c.ramp, 0, c.duration/2, " or half of -duration"),
		program.Within("active", c.active, 0, 1, ""),
		program.Within("shards", c.Shards, 0, 1<<12, "; 0 is for GOMAXPROCS"),
	)
}
