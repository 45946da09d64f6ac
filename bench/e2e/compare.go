package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/perf/benchmath"
	"golang.org/x/term"

	"github.com/idlewheel/idlewheel/bench/internal/cpu"
)

// variants are the ways in which each server is run.
func (c config) variants() []string {
	all := []string{"bare", "own", us}
	if c.stream {
		all = append(all, noStream)
	}
	return all
}

// contender is a variant of a server.
type contender struct {
	name string
	child

	// by round
	ops []float64 // exchanges a second
	cpu []float64 // ns of the server process an exchange
}

// child is a process that runs one, for one round. Where in memory a process
// happens to lie makes it a per cent faster or slower for good, which would not
// show if it ran for more.
type child struct {
	cmd   *exec.Cmd
	life  io.Closer // the process ends when this is closed
	load  load
	turns []turn
}

// turnsPerRound is into how many turns the time of a contender in a round is
// divided. The shorter they are, the less a machine that is now faster, now slower,
// favours one.
const turnsPerRound = 5

// compare runs all variants of a server on the given core, and measures them in
// turns.
func compare(server string, core int, cfg config) (result, error) {
	var all []*contender
	for _, name := range cfg.variants() {
		if servers()[server].run[name] != nil { // gnet has no timeouts of its own
			all = append(all, &contender{name: name})
		}
	}
	watched := term.IsTerminal(int(os.Stderr.Fd()))
	for round := range cfg.rounds {
		if watched {
			fmt.Fprintf(os.Stderr, "\r%s: round %d of %d ", server, round+1, cfg.rounds)
		}
		if err := runRound(server, core, cfg, all); err != nil {
			return result{}, err
		}
	}
	if watched {
		fmt.Fprint(os.Stderr, "\r\033[K")
	}
	return summarize(server, cfg, all), nil
}

// runRound starts the contenders, has them take turns, notes how it went, and stops
// them.
func runRound(server string, core int, cfg config, all []*contender) error {
	for _, c := range all {
		life, err := start(server, c.name, core, cfg)
		if life != nil {
			defer life.stop()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		c.child = *life
	}
	for range 1 + turnsPerRound { // the first one is for the heap to grow, and is not counted
		for _, i := range rand.Perm(len(all)) {
			if err := all[i].run(cfg.duration / turnsPerRound); err != nil {
				return fmt.Errorf("%s: %w", all[i].name, err)
			}
		}
	}
	for _, c := range all {
		c.note(c.turns[1:])
	}
	return nil
}

// run gives the child a turn.
func (c *child) run(d time.Duration) error {
	before, err := cpu.Time(c.cmd.Process.Pid)
	if err != nil {
		return err
	}
	t, err := c.load.run(d)
	if err != nil {
		return err
	}
	after, err := cpu.Time(c.cmd.Process.Pid)
	if err != nil {
		return err
	}
	t.cpu = after - before
	c.turns = append(c.turns, t)
	return nil
}

// note notes what the turns of a round come to.
func (c *contender) note(turns []turn) {
	var sum turn
	for _, t := range turns {
		sum.opsPerS += t.opsPerS
		sum.ops += t.ops
		sum.cpu += t.cpu
	}
	c.ops = append(c.ops, sum.opsPerS/float64(len(turns)))
	c.cpu = append(c.cpu, float64(sum.cpu)/float64(sum.ops))
}

// summarize makes the result of the variants, of which the first is bare.
func summarize(server string, cfg config, all []*contender) result {
	r := result{Server: server, Conns: cfg.conns, Rounds: cfg.rounds}
	var own *contender
	for _, c := range all {
		if c.name == "own" {
			own = c
		}
	}
	for _, c := range all {
		toBare := ratios(c.ops, all[0].ops)
		m := measure{
			Name: c.name, OpsPerS: summarizeOne(c.ops), RatioSpread: summarizeOne(toBare), RatioConfidence: confidence(toBare),
			CPUPerOp: summarizeOne(c.cpu), CPURatioToBare: summarizeOne(ratios(c.cpu, all[0].cpu)).Median,
		}
		m.RatioToBare = m.RatioSpread.Median
		if own != nil {
			m.RatioToOwn = new(summarizeOne(ratios(c.ops, own.ops)).Median)
			m.CPURatioToOwn = new(summarizeOne(ratios(c.cpu, own.cpu)).Median)
		}
		r.Variants = append(r.Variants, m)
	}
	r.Stream = gainOfStream(all)
	return r
}

// ratios returns the ratios within the rounds.
func ratios(values, to []float64) []float64 {
	all := make([]float64, len(values))
	for i := range values {
		all[i] = values[i] / to[i]
	}
	return all
}

// confidence returns between what the median is with 95 % confidence, as benchstat
// does; nil if there are too few values to tell.
func confidence(values []float64) *[2]float64 {
	s := benchmath.AssumeNothing.Summary(benchmath.NewSample(values, &benchmath.DefaultThresholds), 0.95)
	if math.IsInf(s.Lo, 0) || math.IsInf(s.Hi, 0) {
		return nil
	}
	return &[2]float64{s.Lo, s.Hi}
}

// summarizeOne returns the median, the least and the greatest of values, of
// which there must be one.
func summarizeOne(values []float64) summary {
	v := slices.Sorted(slices.Values(values))
	mid := len(v) / 2
	median := v[mid]
	if len(v)%2 == 0 {
		median = (v[mid-1] + v[mid]) / 2
	}
	return summary{Median: median, Min: v[0], Max: v[len(v)-1]}
}

// start runs a variant of a server and connects the load to it. A child that is
// not nil must be stopped, whatever the error.
func start(server, name string, core int, cfg config) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), serveEnv+"="+server+"/"+name, "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	life, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := startOn(core, cmd); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, life: life}
	address, err := findAddress(out)
	if err != nil {
		return c, err
	}
	if c.load, err = connect(servers()[server], address, cfg); err != nil {
		return c, err
	}
	return c, nil
}

// findAddress reads where a child listens.
func findAddress(out io.Reader) (string, error) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), addressPrefix); ok {
			return address, nil
		}
	}
	return "", cmp.Or(lines.Err(), errors.New("the server did not start"))
}

func (c *child) stop() {
	if c.load != nil {
		c.load.close()
	}
	c.life.Close()
	c.cmd.Wait()
}
