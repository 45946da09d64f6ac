package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/stats"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
)

// contender is a variant of a server.
type contender struct {
	name string

	// by round
	ops []float64 // exchanges a second
	cpu []float64 // ns of the server process an exchange

	switches []float64 // context switches of the server process a second
}

// A lap is a contender in one round, with a process of its own. Where in memory a
// process happens to lie makes it a per cent faster or slower for good, which would
// not show if it ran for more.
type lap struct {
	server *server.Child
	load   load
	turns  []turn
}

// turnsPerRound is into how many turns the time of a contender in a round is
// divided. The shorter they are, the less a machine that is now faster, now slower,
// favours one.
const turnsPerRound = 5

// compare runs all variants of a server on the given core, and measures them in
// turns.
func compare(ctx context.Context, kind string, core int, cfg config, bar *progress.Progress) (result, error) {
	var all []*contender
	for _, name := range cfg.variants(kind) {
		all = append(all, &contender{name: name})
	}
	for round := range cfg.rounds {
		if err := ctx.Err(); err != nil {
			return result{}, err
		}
		bar.Say("%s: round %d of %d", kind, round+1, cfg.rounds)
		if err := runRound(kind, core, cfg, all); err != nil {
			return result{}, err
		}
	}
	return summarize(kind, cfg, all), nil
}

// runRound starts the contenders, has them take turns, notes how it went, and stops
// them.
func runRound(kind string, core int, cfg config, all []*contender) error {
	laps := make([]lap, len(all))
	for i, c := range all {
		l := &laps[i]
		var err error
		if l.server, err = start(order{kind, c.name, noTimeout}, core); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		defer l.server.Stop()
		if l.load, err = connect(kind, l.server.Address, cfg); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		defer l.load.close()
	}
	for range 1 + turnsPerRound { // the first one is for the heap to grow, and is not counted
		for _, i := range rand.Perm(len(all)) {
			if err := laps[i].run(cfg.duration / turnsPerRound); err != nil {
				return fmt.Errorf("%s: %w", all[i].name, err)
			}
		}
	}
	for i, c := range all {
		c.note(laps[i].turns[1:])
	}
	return nil
}

// run takes a turn.
func (l *lap) run(d time.Duration) error {
	var t turn
	ran, err := usage.During(l.server.Pid(), func() (err error) {
		t, err = l.load.run(d)
		return err
	})
	t.cpu, t.switches = ran.CPU, ran.Switches
	l.turns = append(l.turns, t)
	return err
}

// note notes what the turns of a round come to.
func (c *contender) note(turns []turn) {
	var sum turn
	for _, t := range turns {
		sum.opsPerS += t.opsPerS
		sum.ops += t.ops
		sum.cpu += t.cpu
		sum.switches += t.switches
	}
	opsPerS := sum.opsPerS / float64(len(turns))
	c.ops = append(c.ops, opsPerS)
	c.cpu = append(c.cpu, float64(sum.cpu)/float64(sum.ops))
	c.switches = append(c.switches, float64(sum.switches)/float64(sum.ops)*opsPerS)
}

// summarize makes the result of the variants, of which the first is bare.
func summarize(kind string, cfg config, all []*contender) result {
	r := result{Server: kind, Conns: cfg.connsOf(kind), Streams: streamsOf(kind), Rounds: cfg.rounds}
	byName := map[string]*contender{}
	for _, c := range all {
		byName[c.name] = c
	}
	bare, own, ours, without := all[0], byName[server.Own], byName[server.Ours], byName[noStream]
	for _, c := range all {
		m := measure{
			Name: c.name, OpsPerS: stats.Summarize(c.ops), CPUPerOp: stats.Summarize(c.cpu),
			SwitchesPerS: stats.Summarize(c.switches),
		}
		m.RatioToBare, m.RatioToBare95 = ratioOf(c.ops, bare.ops)
		m.CPURatioToBare, m.CPURatioToBare95 = ratioOf(c.cpu, bare.cpu)
		if own != nil {
			m.RatioToOwn, m.RatioToOwn95 = ratioOf(c.ops, own.ops)
			m.CPURatioToOwn, m.CPURatioToOwn95 = ratioOf(c.cpu, own.cpu)
		}
		r.Variants = append(r.Variants, m)
	}
	if ours != nil && without != nil {
		r.Stream = &streamGain{}
		r.Stream.OpsRatio, r.Stream.OpsRatio95 = ratioOf(ours.ops, without.ops)
		r.Stream.CPURatio, r.Stream.CPURatio95 = ratioOf(ours.cpu, without.cpu)
	}
	return r
}

func ratioOf(values, to []float64) (*float64, *stats.Interval) {
	r := stats.RatioOf(values, to)
	return &r.Median, r.Interval
}
