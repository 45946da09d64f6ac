// Soak puts a mixed load over real loopback sockets on servers of all kinds
// (idlenet, idlegnet, idlehttp with HTTP/1, HTTP/2 and hijacked connections,
// idlefasthttp), for as long as asked, and checks what becomes of every single
// connection.
//
//	go -C bench run ./soak                       # ten minutes
//	go -C bench run ./soak -duration 10s -json   # one JSON object on stdout
//	go -C bench run ./soak -abuse                # what a hostile client costs, instead
//
// Those that are active must never be closed, those that fall silent must be, in
// time and for the right reason; the counters have to add up, and nothing may
// leak.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/attack"
	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/progress"
)

func main() {
	child.Main(map[string]child.Role{attack.Role: attack.Serve})
	newProgram(new(config)).Main()
}

// config is what the flags say.
type config struct {
	duration time.Duration
	conns    int
	slack    time.Duration
	names    string // of servers, separated by commas
	servers  []string
	seed     uint64
	progress progress.Flag

	abuse  bool
	rounds int
}

func newProgram(c *config) *program.Program[program.Result] {
	return &program.Program[program.Result]{
		Name:  "soak",
		Does:  "Soak puts a mixed load over real sockets on servers with idlewheel's timeouts, and checks who is closed, when, and why, and that nothing leaks.",
		Flags: c.define,
		Check: c.validate,
		Exits: "Exit status: 0 if nothing was violated and nothing leaked, 1 if something was or did, 2 if the soak could not be run. Ctrl-C ends it early, with a report. With -abuse the status says only whether it could be measured.",
		Begin: func() string {
			if c.abuse {
				return fmt.Sprintf("soak: what abusive clients cost, in %d rounds", c.rounds)
			}
			return fmt.Sprintf("soak: %d clients at a time for %v, every limit %v, slack %v", c.conns, c.duration, limit, c.slack)
		},
		Run: func(ctx context.Context, stderr io.Writer) (program.Result, error) {
			if c.abuse {
				return attack.Cost(ctx, c.rounds, stderr, c.progress)
			}
			return runSoak(ctx, *c, stderr)
		},
	}
}

func (c *config) define(fs *flag.FlagSet) {
	fs.DurationVar(&c.duration, "duration", 10*time.Minute, "how long the load lasts")
	fs.IntVar(&c.conns, "conns", 1200, "how many clients there are at a time; each takes two descriptors")
	fs.DurationVar(&c.slack, "slack", 2*time.Second, "how much longer than its limit a stale connection may be kept, on a busy machine, before it is a violation")
	fs.StringVar(&c.names, "servers", strings.Join(serverNames(), ","), "which servers are run, separated by commas")
	fs.Uint64Var(&c.seed, "seed", 1, "what the clients' lives are drawn from")
	fs.Var(&c.progress, "progress", "tell on stderr how it goes; auto does so on a terminal")
	fs.BoolVar(&c.abuse, "abuse", false, "measure what abusive clients cost servers with and without timeouts, instead")
	fs.IntVar(&c.rounds, "rounds", 9, "with -abuse, in how many rounds both are measured")
}

const (
	shortest  = 5 * time.Second
	longest   = 7 * 24 * time.Hour
	maxConns  = 10_000 // loopback has 28,000 ports, and those left by others wait a minute
	maxRounds = 1000
)

func (c *config) validate() error {
	c.servers = strings.Split(c.names, ",")
	for i, name := range c.servers {
		if !slices.Contains(serverNames(), name) {
			return fmt.Errorf("-servers is %q; there is no server %q; there are %s", c.names, name, strings.Join(serverNames(), ", "))
		}
		if slices.Contains(c.servers[:i], name) {
			return fmt.Errorf("-servers is %q; %q is there twice", c.names, name)
		}
	}
	return cmp.Or(
		program.Within("duration", c.duration, shortest, longest, ""),
		program.Within("conns", c.conns, len(c.servers), maxConns, "; each server takes one"),
		program.Within("slack", c.slack, 4*tick, longest, ", since a timeout may be two ticks late"),
		program.Within("rounds", c.rounds, 1, maxRounds, ""),
	)
}

// serverNames are the names of all servers.
func serverNames() (all []string) {
	for _, k := range kinds() {
		all = append(all, k.name)
	}
	return all
}
