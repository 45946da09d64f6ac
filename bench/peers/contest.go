package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/idlewheel/idlewheel/bench/internal/progress"
	"github.com/idlewheel/idlewheel/bench/internal/table"
	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// A contest is a contender in a workload, over all rounds.
type contest struct {
	work     workload
	kind     contender.Kind
	conns    int
	note     string
	skipped  string // why it has no turn, "" if it has
	outcomes []outcome
	failed   error // the last turn that had no outcome
}

// begun reports whether there is an outcome.
func (ct *contest) begun() bool { return len(ct.outcomes) > 0 }

// contests returns those that the flags ask for.
func (c *config) contests() []*contest {
	var all []*contest
	for _, w := range workloads(c.scale()) {
		for _, k := range contender.All() {
			if (w.only == "" || w.only == k.Name) && c.matches(w, k) {
				all = append(all, newContest(w, k))
			}
		}
	}
	return all
}

func (c *config) matches(w workload, k contender.Kind) bool {
	return c.run.MatchString(w.name+"/"+k.Name) || slices.ContainsFunc(w.measures, func(m measure) bool {
		return c.run.MatchString(m.name + "/" + k.Name)
	})
}

// tenfold is how many times more connections than it can have a contender may
// be asked for, and still be shown, with as many as it can.
const tenfold = 10

func newContest(w workload, k contender.Kind) *contest {
	ct := &contest{work: w, kind: k, conns: w.conns}
	switch {
	case k.Most == 0 || w.conns <= k.Most:
	case w.stretches || w.conns <= tenfold*k.Most:
		ct.conns = k.Most
		ct.note = fmt.Sprintf("with %s connections only: %s", table.Group(k.Most), k.Limited)
	default:
		ct.skipped = fmt.Sprintf("cannot have %s connections: %s", short(w.conns), k.Limited)
	}
	return ct
}

// hold runs all contests, in another order each round, so that whatever else
// the machine does hits all of them alike.
func hold(ctx context.Context, cfg config, contests []*contest, stderr io.Writer) error {
	bar := progress.New(stderr, progress.Flag{})
	defer bar.Clear()
	for round := range cfg.rounds {
		var turns []*contest
		for _, ct := range contests {
			if ct.skipped == "" && ct.failed == nil && (!ct.work.slow || round%slowShare == 0) {
				turns = append(turns, ct)
			}
		}
		rand.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
		for i, ct := range turns {
			bar.Say("round %d of %d, turn %d of %d: %s/%s", round+1, cfg.rounds, i+1, len(turns), ct.work.name, ct.kind.Name)
			if err := ct.turn(ctx, cfg.scale()); err != nil {
				return err
			}
		}
	}
	return nil
}

// slowShare is in which round again what is slow has a turn.
const slowShare = 3

// turn runs one turn. It fails only if nothing is to be run any more.
func (ct *contest) turn(ctx context.Context, s scale) error {
	o, err := delegate(ctx, order{ct.work.name, ct.kind.Name, ct.conns, s})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		ct.failed = err
	default:
		ct.outcomes = append(ct.outcomes, o)
	}
	return nil
}
