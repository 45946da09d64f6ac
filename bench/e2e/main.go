//go:build linux

// E2e measures what timeouts cost a whole server: requests per second over loopback, and
// CPU time of the server per request, for the bare server, for the server with its own
// timeouts, and for the server with ours. It also measures how a crowd of real connections
// that fall silent together is closed, and how many bytes of memory each one takes.
//
//	go -C bench run ./e2e                  # net; also gnet, http, https, http2, fasthttp, all
//	go -C bench run ./e2e -server all -json
//	go -C bench run ./e2e -idle 15s        # servers that are almost idle
//
// Every variant runs in a process of its own, on one core. The load comes from this
// process, on another core. In each round the variants take short turns, in a different
// order each time, so that other load on the machine affects all of them alike. Each turn
// warms up before it counts, and each round has new processes, because where one lies in
// memory matters too. Ratios are medians of the ratios within a round. On a shared machine,
// CPU time per request varies least.
//
// With -idle it measures servers that have 3,000 connections and little to do: CPU time and
// context switches per second, at 10, 100, 1,000 and 10,000 messages per second.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/table"
)

func main() {
	child.Main(roles())
	newProgram().Main()
}

func roles() map[string]child.Role { return map[string]child.Role{"server": serve} }

// config is what the flags say.
type config struct {
	server string
	rounds int
	silent int
	idle   time.Duration // 0: full load
}

const (
	fullConns = 64                     // connections under full load
	fullTurns = 250 * time.Millisecond // how long each variant runs in a round then
	idleConns = 3000                   // connections of an almost idle server
)

func newProgram() *program.Program[*report] {
	c := &config{}
	kinds := strings.Join(server.Kinds(), ", ")
	return &program.Program[*report]{
		Name: "e2e",
		Does: "E2e measures what timeouts cost a whole server: bare, with its own timeouts, and with idlewheel's.",
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&c.server, "server", "net", "what to measure: "+kinds+", or all")
			fs.IntVar(&c.rounds, "rounds", 60, "rounds, each of new processes; a tenth as many, but one or more, with a crowd and with -idle")
			fs.IntVar(&c.silent, "silent", 2000, "connections of a crowd that fall silent together")
			fs.DurationVar(&c.idle, "idle", 0, "measure almost idle servers instead, each variant for so long in a round, such as 15s")
		},
		Check: func() error {
			if c.server != "all" && !slices.Contains(server.Kinds(), c.server) {
				return fmt.Errorf("-server is %q; it must be one of %s, or all", c.server, kinds)
			}
			return cmp.Or(
				program.Within("silent", c.silent, 1, 100_000, ""),
				machine.Enough("silent", c.silent, 1, active+ownFiles),
				program.Within("rounds", c.rounds, 1, 1_000_000, ""),
				program.Within("idle", c.idle, 0, time.Minute, "; 0 is for full load"),
			)
		},
		Begin: func() string {
			return fmt.Sprintf("e2e: what timeouts cost a whole server; %s, %d rounds", c.server, c.rounds)
		},
		Run: c.run,
	}
}

// longRounds is how many rounds there are of what takes long in each.
func (c *config) longRounds() int { return max(c.rounds/10, 1) }

// run measures all servers that were asked for.
func (c *config) run(ctx context.Context, show func(string, ...any)) (*report, error) {
	rep := &report{Machine: machine.Here("github.com/panjf2000/gnet/v2", "github.com/valyala/fasthttp")}
	core, own, err := twoCores()
	if err = cmp.Or(err, pin(own)); err != nil {
		return nil, fmt.Errorf("cannot keep the load on a core of its own: %w", err)
	}
	kinds := []string{c.server}
	if c.server == "all" {
		kinds = server.Kinds()
	}
	for _, kind := range kinds {
		b := &bench{ctx: ctx, kind: kind, core: core, cfg: c, show: show, conns: fullConns, rounds: c.rounds, turns: fullTurns}
		if kind == server.HTTP2 {
			b.conns /= streams
		}
		if c.idle > 0 {
			b.conns, b.rounds, b.turns = idleConns, c.longRounds(), c.idle
		}
		r := result{Server: kind, Conns: b.conns, Rounds: b.rounds}
		switch {
		case c.idle == 0:
			if r.Variants, err = b.compare(); err == nil {
				r.Crowd, err = b.gather()
			}
		case plain(kind):
			for _, b.pace = range []int{10, 100, 1000, 10_000} {
				var variants []*measure
				if variants, err = b.compare(); err != nil {
					break
				}
				r.Idle = append(r.Idle, calm{b.pace, variants})
			}
		default:
			continue // its clients don't sleep
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		rep.Servers = append(rep.Servers, r)
	}
	return rep, nil
}

// A bench measures one kind of server, on a core.
type bench struct {
	ctx  context.Context
	kind string
	core int
	cfg  *config
	show func(string, ...any)

	conns, rounds int
	turns         time.Duration // how long each variant runs in a round
	pace          int           // messages per second in all; 0 for as many as the server answers
}

// A measure is of one variant, over all rounds.
type measure struct {
	Name         string       `json:"name"`
	OpsPerS      float64      `json:"ops_per_s"`
	OpsToBare    *stats.Ratio `json:"ops_to_bare"`
	CPUPerOp     float64      `json:"cpu_ns_per_op"` // of the server process
	CPUToBare    *stats.Ratio `json:"cpu_to_bare"`
	CPUToOwn     *stats.Ratio `json:"cpu_to_own,omitempty"` // none if the server has no timeouts of its own
	SwitchesPerS float64      `json:"switches_per_s"`

	ops, cpu, switches []float64 // by round
}

// turnsPerRound is how many turns a variant has in a round. The shorter they are, the
// less a machine that is now faster, now slower, favors one.
const turnsPerRound = 5

// compare runs all variants in turns. Where in memory a process happens to lie makes it a
// percent faster or slower for good, so each round has new ones.
func (b *bench) compare() ([]*measure, error) {
	var all []*measure
	for _, name := range server.Variants(b.kind) {
		all = append(all, &measure{Name: name})
	}
	for round := range b.rounds {
		if err := b.ctx.Err(); err != nil {
			return nil, err
		}
		b.show("%s: round %d of %d", b.kind, round+1, b.rounds)
		if err := b.runRound(all); err != nil {
			return nil, err
		}
	}
	summarize(all)
	return all, nil
}

func (b *bench) runRound(all []*measure) error {
	children, loads, sums := make([]*proc, len(all)), make([]load, len(all)), make([]turn, len(all))
	for i, c := range all {
		var err error
		if children[i], err = b.start(c.Name, noTimeout); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		defer children[i].Stop()
		if loads[i], err = b.connect(children[i].address, b.conns); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		defer loads[i].close()
	}
	for n := range 1 + turnsPerRound { // in the first one the heap grows, and it isn't counted
		for _, i := range rand.Perm(len(all)) {
			var t turn
			used, err := machine.During(children[i].Pid(), func() (err error) {
				t, err = loads[i].run(b.turns / turnsPerRound)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", all[i].Name, err)
			}
			if n > 0 {
				sums[i].opsPerS += t.opsPerS
				sums[i].ops += t.ops
				sums[i].cpu += used.CPU
				sums[i].switches += used.Switches
			}
		}
	}
	for i, c := range all {
		c.note(sums[i])
	}
	return nil
}

// note notes the sum of the turns of a round.
func (m *measure) note(sum turn) {
	opsPerS := sum.opsPerS / turnsPerRound
	m.ops = append(m.ops, opsPerS)
	m.cpu = append(m.cpu, float64(sum.cpu)/float64(sum.ops))
	m.switches = append(m.switches, float64(sum.switches)/float64(sum.ops)*opsPerS)
}

// summarize sums up the rounds of all variants. The first one is the bare server.
func summarize(all []*measure) {
	own := slices.IndexFunc(all, func(m *measure) bool { return m.Name == server.Own })
	for _, m := range all {
		m.OpsPerS, m.CPUPerOp, m.SwitchesPerS = stats.Median(m.ops), stats.Median(m.cpu), stats.Median(m.switches)
		m.OpsToBare, m.CPUToBare = stats.RatioOf(m.ops, all[0].ops), stats.RatioOf(m.cpu, all[0].cpu)
		if own >= 0 {
			m.CPUToOwn = stats.RatioOf(m.cpu, all[own].cpu)
		}
	}
}

// A calm is what an almost idle server costs.
type calm struct {
	Rate     int        `json:"messages_per_s"` // in all
	Variants []*measure `json:"variants"`
}

// A result is of one server.
type result struct {
	Server   string     `json:"server"`
	Conns    int        `json:"conns"`
	Rounds   int        `json:"rounds"`
	Variants []*measure `json:"variants,omitempty"` // under full load
	Idle     []calm     `json:"idle,omitempty"`     // with -idle
	Crowd    *crowd     `json:"crowd,omitempty"`
}

type report struct {
	Machine machine.Machine `json:"machine"`
	Servers []result        `json:"servers"`
}

// Status is a pass: figures are for people to judge.
func (r *report) Status() int { return program.Pass }

func (r *report) Table(w io.Writer) {
	fmt.Fprintln(w, r.Machine)
	for _, s := range r.Servers {
		if s.Variants != nil {
			rows := [][]string{{"", "requests/s", "of bare", "CPU µs each", "of bare", "of own"}}
			for _, v := range s.Variants {
				rows = append(rows, []string{v.Name, table.Figure(v.OpsPerS), v.OpsToBare.String(), table.Figure(v.CPUPerOp / 1000), v.CPUToBare.String(), v.CPUToOwn.String()})
			}
			table.Write(w, fmt.Sprintf("%s: %d connections, %d rounds", s.Server, s.Conns, s.Rounds), rows...)
		}
		if s.Idle != nil {
			rows := [][]string{{"messages/s", "", "CPU ms/s", "of bare", "of own", "switches/s"}}
			for _, c := range s.Idle {
				for _, v := range c.Variants {
					rows = append(rows, []string{table.Group(c.Rate), v.Name, table.Figure(v.CPUPerOp * v.OpsPerS / 1e6), v.CPUToBare.String(), v.CPUToOwn.String(), table.Figure(v.SwitchesPerS)})
				}
			}
			table.Write(w, fmt.Sprintf("%s, almost idle: %d connections, %d rounds", s.Server, s.Conns, s.Rounds), rows...)
		}
		if s.Crowd != nil {
			s.Crowd.table(w, s.Server)
		}
	}
	fmt.Fprintln(w, "\nA ratio is the median of those within a round, with its 95 % interval. A ~ marks an interval that contains 1.")
}
