package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// config is what the flags say.
type config struct {
	conns     int
	sockets   int // 0: mock connections
	duration  time.Duration
	idle      time.Duration
	heartbeat time.Duration // 0: none
	active    float64
	shards    int // 0: the tracker's default
	tick      time.Duration
	seed      uint64
	json      bool
	report    string
	progress  auto
}

// count is how many connections there are, of whatever kind.
func (c *config) count() int {
	if c.sockets > 0 {
		return c.sockets
	}
	return c.conns
}

const (
	maxConns  = 100_000_000
	maxShards = 1 << 12
	minTicks  = 4 // a limit shorter than so many ticks tests rounding, not a tracker
)

func newFlags(c *config) *flag.FlagSet {
	fs := flag.NewFlagSet("loadtest", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run reports the error, without a page of help after it
	fs.Usage = func() {}
	fs.IntVar(&c.conns, "conns", 1_000_000, "how many mock connections there are")
	fs.IntVar(&c.sockets, "sockets", 0, "instead, how many real TCP connections over loopback, to a server in a process of its own")
	fs.DurationVar(&c.duration, "duration", 20*time.Second, "how long the connections live; setting up and measuring comes on top")
	fs.DurationVar(&c.idle, "idle", 5*time.Second, "the idle timeout")
	fs.DurationVar(&c.heartbeat, "heartbeat", 2*time.Second, "the heartbeat interval of the connections that beat; half as long again makes them stale; 0 for none")
	fs.Float64Var(&c.active, "active", 0.5, "the share of connections, from 0 to 1, that are active all the time")
	fs.IntVar(&c.shards, "shards", 0, "how many shards the tracker has; 0 for GOMAXPROCS")
	fs.DurationVar(&c.tick, "tick", 10*time.Millisecond, "the tracker's tick")
	fs.Uint64Var(&c.seed, "seed", 1, "what the connections' lives are drawn from")
	fs.BoolVar(&c.json, "json", false, "write one JSON object to stdout, and nothing else")
	fs.StringVar(&c.report, "report", "", "write the result as an HTML page to this file, too")
	fs.Var(&c.progress, "progress", "show progress on stderr: true, false, or auto for if it is a terminal")
	return fs
}

// parse returns what args say, or an error that names the flag and its value.
func parse(args []string) (config, error) {
	var c config
	fs := newFlags(&c)
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q; all arguments are flags", fs.Arg(0))
	}
	return c, c.validate()
}

func (c *config) validate() error {
	switch {
	case c.conns < 1 || c.conns > maxConns:
		return fmt.Errorf("-conns is %d; it must be 1 to %d", c.conns, maxConns)
	case c.sockets < 0 || c.sockets > maxConns:
		return fmt.Errorf("-sockets is %d; it must be 1 to %d, or 0 for mock connections", c.sockets, maxConns)
	case c.tick < time.Millisecond:
		return fmt.Errorf("-tick is %v; it must be at least 1ms", c.tick)
	case c.idle < minTicks*c.tick:
		return fmt.Errorf("-idle is %v; it must be at least %d ticks, %v", c.idle, minTicks, minTicks*c.tick)
	case c.heartbeat != 0 && c.heartbeat < minTicks*c.tick:
		return fmt.Errorf("-heartbeat is %v; it must be at least %d ticks, %v, or 0 for none", c.heartbeat, minTicks, minTicks*c.tick)
	case !(c.active >= 0 && c.active <= 1): // also what is not a number
		return fmt.Errorf("-active is %v; it must be 0 to 1", c.active)
	case c.shards < 0 || c.shards > maxShards:
		return fmt.Errorf("-shards is %d; it must be 1 to %d, or 0 for GOMAXPROCS", c.shards, maxShards)
	case c.duration >= 24*time.Hour:
		return fmt.Errorf("-duration is %v; it must be less than a day", c.duration)
	case c.duration < c.shortest():
		return fmt.Errorf("-duration is %v; with -idle %v and -heartbeat %v it must be at least %v, so that what falls silent is due before the end", c.duration, c.idle, c.heartbeat, c.shortest())
	}
	return nil
}

// staleAfter is how long a connection under a heartbeat may be silent.
func (c *config) staleAfter() time.Duration { return c.heartbeat + c.pongAfter() }

// pongAfter is how long the answer to a ping, or an overdue beat, may take.
func (c *config) pongAfter() time.Duration { return c.heartbeat / 2 }

// longest is the longest limit of any connection.
func (c *config) longest() time.Duration { return max(c.idle, c.staleAfter()) }

// shortest is the shortest duration in which every limit can pass.
func (c *config) shortest() time.Duration { return c.longest() + c.longest()/4 }

// auto is a flag that is true, false, or neither.
type auto struct{ set, value bool }

func (a *auto) String() string {
	if !a.set {
		return "auto"
	}
	return strconv.FormatBool(a.value)
}

func (a *auto) Set(s string) error {
	if s == "auto" {
		*a = auto{}
		return nil
	}
	v, err := strconv.ParseBool(s)
	if err != nil {
		return errors.New("it must be true, false or auto")
	}
	*a = auto{set: true, value: v}
	return nil
}

// IsBoolFlag has -progress alone mean -progress=true.
func (a *auto) IsBoolFlag() bool { return true }

// or returns the flag's value, or byDefault if it has none.
func (a auto) or(byDefault bool) bool {
	if a.set {
		return a.value
	}
	return byDefault
}

func usage(w io.Writer) {
	fmt.Fprint(w, `Loadtest puts connections through idlewheel's tracker and checks who was closed,
when, and why.

usage: go -C bench run ./loadtest [flags]

`)
	var c config
	fs := newFlags(&c)
	fs.VisitAll(func(f *flag.Flag) {
		kind, text := flag.UnquoteUsage(f)
		if _, ok := f.Value.(*auto); ok {
			kind = ""
		}
		fmt.Fprintf(w, "  %-22s %s (default %s)\n", "-"+f.Name+" "+kind, text, f.DefValue)
	})
	fmt.Fprint(w, `
Exit status: 0 if all is right, 1 if a connection was closed early, not at all,
or for the wrong reason, 2 if the test could not be run, 130 after Ctrl-C.
`)
}

// forever is a moment that never comes.
const forever = math.MaxInt64
