package main

import (
	"flag"
	"fmt"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/progress"
)

// config is what the flags say.
type config struct {
	limits
	conns    int
	sockets  int // 0: mock connections
	duration time.Duration
	active   float64
	seed     uint64
	progress progress.Flag
}

// count is how many connections there are, of whatever kind.
func (c *config) count() int {
	if c.sockets > 0 {
		return c.sockets
	}
	return c.conns
}

// what tells what connections these are.
func (c *config) what() string {
	if c.sockets > 0 {
		return "TCP connections over loopback, to a server process"
	}
	return "mock connections"
}

const (
	maxConns  = 100_000_000
	maxShards = 1 << 12
	minTicks  = 4 // a limit shorter than so many ticks tests rounding, not a tracker
)

func (c *config) define(fs *flag.FlagSet) {
	fs.IntVar(&c.conns, "conns", 1_000_000, "how many mock connections there are")
	fs.IntVar(&c.sockets, "sockets", 0, "instead, how many real TCP connections over loopback, to a server in a process of its own")
	fs.DurationVar(&c.duration, "duration", 20*time.Second, "how long the connections live; setting up and measuring comes on top")
	fs.DurationVar(&c.Idle, "idle", 5*time.Second, "the idle timeout")
	fs.DurationVar(&c.Heartbeat, "heartbeat", 2*time.Second, "the heartbeat interval of the connections that beat; half as long again makes them stale; 0 for none")
	fs.Float64Var(&c.active, "active", 0.5, "the share of connections, from 0 to 1, that are active all the time")
	fs.IntVar(&c.Shards, "shards", 0, "how many shards the tracker has; 0 for GOMAXPROCS")
	fs.DurationVar(&c.Tick, "tick", 10*time.Millisecond, "the tracker's tick")
	fs.Uint64Var(&c.seed, "seed", 1, "what the connections' lives are drawn from")
	fs.Var(&c.progress, "progress", "show progress on stderr: true, false, or auto for if it is a terminal")
}

func (c *config) check() error {
	c.Remote = c.sockets > 0
	switch {
	case c.conns < 1 || c.conns > maxConns:
		return fmt.Errorf("-conns is %d; it must be 1 to %d", c.conns, maxConns)
	case c.sockets < 0 || c.sockets > maxConns:
		return fmt.Errorf("-sockets is %d; it must be 1 to %d, or 0 for mock connections", c.sockets, maxConns)
	case c.Tick < time.Millisecond:
		return fmt.Errorf("-tick is %v; it must be at least 1ms", c.Tick)
	case c.Idle < minTicks*c.Tick:
		return fmt.Errorf("-idle is %v; it must be at least %d ticks, %v", c.Idle, minTicks, minTicks*c.Tick)
	case c.Heartbeat != 0 && c.Heartbeat < minTicks*c.Tick:
		return fmt.Errorf("-heartbeat is %v; it must be at least %d ticks, %v, or 0 for none", c.Heartbeat, minTicks, minTicks*c.Tick)
	case !(c.active >= 0 && c.active <= 1): // also what is not a number
		return fmt.Errorf("-active is %v; it must be 0 to 1", c.active)
	case c.Shards < 0 || c.Shards > maxShards:
		return fmt.Errorf("-shards is %d; it must be 1 to %d, or 0 for GOMAXPROCS", c.Shards, maxShards)
	case c.duration >= 24*time.Hour:
		return fmt.Errorf("-duration is %v; it must be less than a day", c.duration)
	case c.duration < c.shortest():
		return fmt.Errorf("-duration is %v; with -idle %v and -heartbeat %v it must be at least %v, so that what falls silent is due before the end", c.duration, c.Idle, c.Heartbeat, c.shortest())
	}
	return nil
}

// shortest is the shortest duration in which every limit can pass.
func (c *config) shortest() time.Duration { return c.longest() + c.longest()/4 }
