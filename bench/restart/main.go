// Restart replaces a server by another one, again and again, while clients use it: over HTTP/1
// and HTTP/2, each with and without TLS, and over WebSockets. It counts the requests that failed.
//
//	go -C bench run ./restart
//	go -C bench run ./restart -restarts 5 -json
//	go -C bench run ./restart -own        # http.Server.Shutdown instead of ours, for comparison
//
// A balancer that knows nothing of HTTP is in front. It asks each server whether it's ready, and
// connects new clients to one that is. A server that leaves says so (LameDuck), and is shut down
// when the balancer has noticed (Shutdown).
//
// Clients send POSTs. net/http sends one again only if it knows that the server hasn't executed
// it. So each error that a client sees is a request that it may not retry.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

func main() { newProgram(new(config)).Main() }

// config is what the flags say.
type config struct {
	restarts int
	clients  int // of each kind
	pause    time.Duration
	lameDuck time.Duration
	drain    time.Duration
	own      bool
	progress progress.Flag
}

func newProgram(c *config) *program.Program[*report] {
	return &program.Program[*report]{
		Name: "restart",
		Does: "Restart replaces a server by another one, again and again, while clients use it over HTTP/1, HTTP/2, TLS and WebSockets, and counts the requests that failed.",
		Flags: func(fs *flag.FlagSet) {
			fs.IntVar(&c.restarts, "restarts", 20, "how many times the server is replaced")
			fs.IntVar(&c.clients, "clients", 20, "how many clients of each kind there are; there are six kinds")
			fs.DurationVar(&c.pause, "pause", 40*time.Millisecond, "how long a client pauses between two requests, at most")
			fs.DurationVar(&c.lameDuck, "lame-duck", 500*time.Millisecond, "how long a server that leaves goes on serving")
			fs.DurationVar(&c.drain, "drain", time.Second, "over which time the connections that are left are ended")
			fs.BoolVar(&c.own, "own", false, "shut servers down by http.Server.Shutdown")
			fs.Var(&c.progress, "progress", "show how the run goes: true or false; by default on a terminal only")
		},
		Check: func() error {
			const why = ""
			return cmp.Or(
				program.Within("restarts", c.restarts, 1, 10_000, why),
				program.Within("clients", c.clients, 1, 10_000, why),
				program.Within("pause", c.pause, time.Millisecond, time.Minute, why),
				program.Within("lame-duck", c.lameDuck, 4*askEvery, time.Minute, ", because the balancer has to notice"),
				program.Within("drain", c.drain, 10*time.Millisecond, time.Hour, why),
			)
		},
		Exits: "Exit status: 0 if no request failed, 1 if one did, 2 if it could not be run. With -own the status is 0 in any case.",
		Begin: func() string {
			return fmt.Sprintf("restart: %d clients of each kind, through %d restarts of about %v each", c.clients, c.restarts, c.lameDuck+c.drain+2*time.Second)
		},
		Run: func(ctx context.Context, stderr io.Writer) (*report, error) { return run(ctx, *c, stderr) },
	}
}

// A report is what was counted.
type report struct {
	Machine  machine.Machine `json:"machine"`
	Load     float64         `json:"load"` // of the machine in the minute before, as uptime has it; 0 if not known
	Restarts int             `json:"restarts"`
	Own      bool            `json:"own"`
	Seconds  float64         `json:"seconds"`
	Longest  float64         `json:"longest_shutdown_s"`
	Kinds    []outcome       `json:"kinds"`
	Faults   []string        `json:"faults"` // of servers: what their shutdown returned
}

// An outcome is what clients of one kind have seen.
type outcome struct {
	Kind        string `json:"kind"`
	Requests    int64  `json:"requests"`
	Failed      int64  `json:"failed"`
	Connections int64  `json:"connections"`
	Error       string `json:"first_error,omitempty"`
}

// Status implements program.Result.
func (r *report) Status() int {
	if r.Own {
		return program.Pass
	}
	for _, k := range r.Kinds {
		if k.Failed > 0 {
			return program.Fail
		}
	}
	if len(r.Faults) > 0 {
		return program.Fail
	}
	return program.Pass
}

// Table implements program.Result.
func (r *report) Table(w io.Writer) {
	t := table.Table{
		Columns: []string{"clients", "connections", "requests", "failed"},
		Caption: fmt.Sprintf("%d restarts in %.0f s; the longest shutdown took %.1f s", r.Restarts, r.Seconds, r.Longest),
	}
	for _, k := range r.Kinds {
		t.AddWithRemark(k.Error, k.Kind, table.Group(k.Connections), table.Group(k.Requests), table.Group(k.Failed))
	}
	t.Write(w)
	for _, f := range r.Faults {
		table.Paragraph(w, f)
	}
}
