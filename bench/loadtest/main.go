// Loadtest runs connections by the million through the real tracker, in real
// time, and checks what comes out against an oracle that knows what every one
// of them did: who had to be closed, when, and for which reason.
//
//	go -C bench run ./loadtest                  # a million mock connections, about 25 s
//	go -C bench run ./loadtest -conns 10000000  # ten million
//	go -C bench run ./loadtest -sockets 5000    # real TCP connections over loopback
//	go -C bench run ./loadtest -json            # one JSON object on stdout
//	go -C bench run ./loadtest -report r.html   # a page with plots, too
//
// Some connections are active all the time, some fall silent, some beat, some
// end by themselves before their deadline. The exit status is 0 if the tracker
// closed exactly those that were due, 1 if not, and 2 if the test could not be
// run as asked.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/program"
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
		Exits: "Exit status: 0 if all is right, 1 if a connection was closed early, not at all, or for the wrong reason, " +
			"2 if the test could not be run, 130 after Ctrl-C.",
		Flags: c.define,
		Check: c.check,
		Begin: func() string {
			return fmt.Sprintf("loadtest: %s %s\nrunning for %v; setting up and measuring takes some seconds more\n", table.Group(c.count()), c.what(), c.duration)
		},
		Run: func(ctx context.Context, stderr io.Writer) (*report, error) {
			if c.sockets > 0 {
				return runSockets(ctx, *c, stderr)
			}
			return runMock(ctx, *c, stderr)
		},
		Files: []program.File[*report]{{
			Flag: "report", Usage: "also write the result as an HTML page to this `file`",
			Write: func(w io.Writer, r *report) error { return r.page().Write(w) },
		}},
	}
}
