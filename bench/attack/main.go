// Attack proves by attack that slow clients cannot hold an HTTP server. The
// attackers are the cases of slowcheck, thousands at once, while honest clients make
// requests. They attack the bare server, the server with its own timeouts, and the
// server with ours, each in a process of its own.
//
//	go -C bench run ./attack -server http
//	go -C bench run ./attack -server https
//	go -C bench run ./attack -server fasthttp -json
//	go -C bench run ./attack -server net -capacity 1s
//
// Every variant is attacked twice: with ample descriptors, and with only as many
// as there are attackers, who come first.
//
// With -capacity, silent connections flood a server that has too few descriptors,
// and idle.Capacity has to keep it open for honest clients.
//
// It runs on Linux only: it asks the kernel what slow readers have taken.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/attack"
	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

func main() {
	child.Main(map[string]child.Role{attack.Role: attack.Serve})
	newProgram(new(attack.Config)).Main()
}

func newProgram(c *attack.Config) *program.Program[*attack.Report] {
	return &program.Program[*attack.Report]{
		Name: "attack",
		Does: "Attack proves by attack that slow clients cannot hold an HTTP server. It runs on Linux only.",
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&c.Server, "server", "http", "what to attack: "+strings.Join(attack.Servers(), ", "))
			fs.IntVar(&c.Attackers, "attackers", 2000, "how many attackers there are, a connection each")
			fs.IntVar(&c.Honest, "honest", 50, "how many honest clients there are, a connection each; a tenth as many slow ones come on top")
			fs.DurationVar(&c.Duration, "duration", 20*time.Second, "how long each attack takes; there are six")
			fs.DurationVar(&c.Capacity, "capacity", 0, "instead of the six attacks, flood with silent connections: ours evicts connections that have been idle for so long; also of net servers")
			fs.DurationVar(&c.Every, "every", 200*time.Millisecond, "how often an honest client makes a request")
			fs.DurationVar(&c.Patience, "patience", 5*time.Second, "how long an honest client waits for an answer")
			fs.DurationVar(&c.Late, "late", 3*time.Second, "how late the cut of an attacker may be, on a machine that does other things as well")
			fs.DurationVar(&c.Header, "header", 2*time.Second, "the limit of handshakes and of headers")
			fs.DurationVar(&c.Body, "body", 2*time.Second, "the limit of a pause within a body; the server's own ReadTimeout if it is longer than -header")
			fs.IntVar(&c.Rate, "rate", 240, "the minimum rate of bodies, in bytes a second")
			fs.DurationVar(&c.Grace, "grace", 2*time.Second, "after how long the rates count")
			fs.DurationVar(&c.Write, "write", 2*time.Second, "the limit of a pause within a response; the server's own WriteTimeout")
			fs.IntVar(&c.WriteRate, "write-rate", 24_000, "the minimum rate of responses, in bytes a second; the kernel reports progress in steps of nearly a kilobyte")
			fs.DurationVar(&c.KeepAlive, "keepalive", 3*time.Second, "the limit of the wait for a next request")
		},
		Check: c.Validate,
		More: func(w io.Writer) {
			table.Paragraph(w, "The attackers are the cases of slowcheck, without its honest clients: go -C bench run ./slowcheck -h lists them.")
		},
		Exits: "Exit status: 0 if with idlewheel's timeouts all attackers were cut, none early or long after its limit, and no honest request failed, or with -capacity, if newcomers were served and no idle honest client lost its connection; 1 if not; 2 if the test could not be run, 130 after Ctrl-C.",
		Begin: func() string {
			if c.Capacity > 0 {
				return fmt.Sprintf("attack: %s, flooded by %d attackers; %d honest clients that are idle, and as many newcomers; a flood of %v for each variant", c.Server, c.Attackers, c.Honest, c.Duration)
			}
			return fmt.Sprintf("attack: %s, %d attackers, %d honest clients, a tenth as many slow ones; six attacks of %v", c.Server, c.Attackers, c.Honest, c.Duration)
		},
		Run: func(ctx context.Context, stderr io.Writer) (*attack.Report, error) {
			if c.Capacity > 0 {
				return attack.Flood(ctx, *c, stderr)
			}
			return attack.Run(ctx, *c, stderr)
		},
	}
}
