// Command e2e measures what timeouts cost a whole server: requests a second
// over loopback, and CPU time of the server a request, for the bare server, for
// the server with its own timeouts, and for the server with ours. It also measures
// how a crowd of real connections that go silent at once is closed, and how many
// bytes of memory each of them takes.
//
//	go -C bench run ./e2e -server net
//	go -C bench run ./e2e -server fasthttp   # or gnet, grpc, http, http2, https, websocket, all
//	go -C bench run ./e2e -html FILE         # as a page
//	go -C bench run ./e2e -stream            # and ours without kernel.Stream
//	go -C bench run ./e2e -idle 15s          # almost idle servers
//
// Every variant runs in a process of its own, on one core; the load comes from
// this process, on another. In each round the variants take short turns, in another
// order each time, so that whatever else the machine does hits all of them alike;
// each turn warms up before it counts; and each round has new processes, as where
// one lies in memory matters, too.
// ratio_to_bare and the other ratios are medians of the ratios within a round.
// Where the machine is shared, cpu_ns_per_op is the figure that moves less.
//
// Ours reads and writes by recv and send (kernel.Stream), which costs less than the
// read and write of package net. With -stream there is another variant, no-stream:
// ours, but read and written by package net. Below the table stands what
// kernel.Stream gains, as ratios of ours to no-stream, and how many bytes it takes for
// each connection, where that is measured.
//
// http2 and grpc have 8 requests in progress on each connection, and an eighth of the
// connections. The variant with its own timeouts has the fields of http.Server for http2, which
// runs over TLS, and keepalive.ServerParameters for grpc, which doesn't. websocket is coder/websocket over net/http; its
// own timeouts are a context for each message, and ours is a policy of idlehttp.Watch.
//
// With -idle it measures servers that have 3,000 connections and little to do: CPU
// time and context switches a second, at each of -rates messages a second.
//
// It runs on Linux only.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/page"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
)

func main() {
	child.Main(roles())
	newProgram(&config{}).Main()
}

func roles() map[string]child.Role { return map[string]child.Role{"server": serve} }

func newProgram(c *config) *program.Program[*report] {
	return &program.Program[*report]{
		Name:  "e2e",
		Does:  "E2e measures what timeouts cost a whole server: bare, with its own timeouts, and with idlewheel's.",
		Flags: c.define,
		Check: c.check,
		Begin: func() string {
			return fmt.Sprintf("e2e: what timeouts cost a whole server\n%s; about %v\n", strings.Join(c.servers(), ", "), c.estimate())
		},
		Run: func(ctx context.Context, stderr io.Writer) (*report, error) { return measureAll(ctx, *c, stderr) },
		Files: []program.File[*report]{{
			Flag: "html", Usage: "also write the result as a page to this `file`",
			Write: func(w io.Writer, r *report) error { return page.Write(w, "What timeouts cost a whole server", r.Table) },
		}},
	}
}

// config is what the flags say.
type config struct {
	server   string
	conns    int
	rounds   int
	duration time.Duration
	size     int
	stream   bool
	silent   int
	idle     time.Duration // 0: not
	rates    rates

	pace int // messages a second in all; 0 for as many as the server answers
}

const maxSize = 4096 // what an echo server reads at once

func (c *config) define(fs *flag.FlagSet) {
	fs.StringVar(&c.server, "server", "net", "what to measure: "+strings.Join(server.Kinds(), ", ")+", or all")
	fs.IntVar(&c.conns, "conns", 64, "connections")
	fs.IntVar(&c.rounds, "rounds", 60, "rounds, each of new processes; a tenth as many, but one or more, with a crowd of connections and with -idle")
	fs.DurationVar(&c.duration, "duration", 250*time.Millisecond, "how long each variant runs in a round")
	fs.IntVar(&c.size, "size", 64, "bytes a message, for echo servers")
	fs.IntVar(&c.silent, "silent", 2000, "connections of a crowd that go silent at once")
	fs.DurationVar(&c.idle, "idle", 0, "measure almost idle servers instead, at each of -rates, and for how long each variant of them runs in a round, such as 15s")
	c.rates = rates{10, 100, 1000, 10_000}
	fs.Var(&c.rates, "rates", "messages a second with -idle")
	fs.BoolVar(&c.stream, "stream", false, "also run ours without kernel.Stream, read and written by package net, and show what that gains and takes")
}

func (c *config) check() error {
	switch {
	case c.server != "all" && !slices.Contains(server.Kinds(), c.server):
		return fmt.Errorf("-server is %q; it must be one of %s, or all", c.server, strings.Join(server.Kinds(), ", "))
	case c.stream && c.server == server.Gnet:
		return errors.New("-stream is set, and -server is gnet, which does not use package net; it must be another")
	}
	if c.idle != 0 {
		if err := c.checkIdle(); err != nil {
			return err
		}
	}
	return cmp.Or(
		program.Within("silent", c.silent, 1, 100_000, ""),
		usage.Enough("silent", c.silent, 1, active+ownFiles),
		program.Within("conns", c.conns, 1, 10_000, ""),
		program.Within("rounds", c.rounds, 1, 1_000_000, ""),
		program.Within("duration", c.duration, 10*time.Millisecond, time.Hour, ""),
		program.Within("size", c.size, 1, maxSize, ""),
	)
}

// longRounds is how many rounds there are of what takes long in each.
func (c *config) longRounds() int { return max(c.rounds/10, 1) }

func (c *config) servers() []string {
	switch {
	case c.server != "all":
		return []string{c.server}
	case c.idle > 0:
		return crowdedKinds()
	}
	return server.Kinds()
}

// variants are the ways in which a kind of server is run.
func (c *config) variants(kind string) []string {
	all := server.Variants(kind)
	if c.stream && kind != server.Gnet {
		all = append(all, noStream)
	}
	return all
}

// estimate returns about how long the run takes.
func (c *config) estimate() time.Duration {
	var d time.Duration
	for _, kind := range c.servers() {
		for range c.variants(kind) {
			if c.idle > 0 {
				d += time.Duration(len(c.rates)*c.longRounds()) * (c.idle*(turnsPerRound+1)/turnsPerRound + time.Second/2)
				continue
			}
			d += time.Duration(c.rounds) * (c.duration*(turnsPerRound+1)/turnsPerRound + (turnsPerRound+1)*warmUp + 50*time.Millisecond)
			switch {
			case crowded(kind):
				d += time.Duration(c.longRounds()) * 2 * crowdLimit(c.silent)
			case kind != server.HTTPS:
				d += time.Duration(c.longRounds()) * 2 * time.Second
			}
		}
	}
	return d.Round(time.Second)
}

func measureAll(ctx context.Context, cfg config, stderr io.Writer) (*report, error) {
	rep := &report{Machine: machine.Take(ctx, "github.com/coder/websocket", "github.com/panjf2000/gnet/v2", "github.com/valyala/fasthttp", "google.golang.org/grpc"), cfg: cfg}
	core, err := child.Allot()
	if err != nil {
		return nil, fmt.Errorf("cannot keep the load on a core of its own: %w", err)
	}
	bar := progress.New(stderr, "")
	defer bar.Clear()
	for _, kind := range cfg.servers() {
		r, err := measureOne(ctx, kind, core, cfg, bar)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		rep.Servers = append(rep.Servers, r)
	}
	return rep, nil
}

// measureOne measures one kind of server.
func measureOne(ctx context.Context, kind string, core int, cfg config, bar *progress.Progress) (result, error) {
	if cfg.idle > 0 {
		return compareIdle(ctx, kind, core, cfg, bar)
	}
	r, err := compare(ctx, kind, core, cfg, bar)
	if err != nil {
		return r, err
	}
	r.Crowd, err = gather(ctx, kind, core, cfg, bar)
	if r.Stream != nil && r.Crowd != nil {
		r.Stream.BytesPerConn = r.Crowd.bytesOver(server.Ours, noStream)
	}
	return r, err
}
