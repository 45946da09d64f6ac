package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/idlewheel/idlewheel/bench/internal/child"
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

// contests returns those that the flags ask for.
func (c *config) contests() (all []*contest) {
	for _, w := range workloads(c.scale()) {
		for _, k := range contender.All() {
			matches := func(name string) bool { return c.run.MatchString(name + "/" + k.Name) }
			if matches(w.name) || slices.ContainsFunc(w.measures, func(m measure) bool { return matches(m.name) }) {
				all = append(all, newContest(w, k))
			}
		}
	}
	return all
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
// the machine does hits all of them alike. It fails if ctx ends.
func hold(ctx context.Context, cfg config, contests []*contest, stderr io.Writer) error {
	bar := progress.New(stderr, "")
	defer bar.Clear()
	for round := range cfg.rounds {
		turns := slices.DeleteFunc(slices.Clone(contests), func(ct *contest) bool {
			return ct.skipped != ""
		})
		rand.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
		for i, ct := range turns {
			if ct.failed != nil {
				continue
			}
			bar.Say("round %d of %d, turn %d of %d: %s/%s", round+1, cfg.rounds, i+1, len(turns), ct.work.name, ct.kind.Name)
			o, err := delegate(ctx, order{ct.work.name, ct.kind.Name, ct.conns, cfg.scale()})
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if ct.failed = err; err == nil {
				ct.outcomes = append(ct.outcomes, o)
			}
		}
	}
	return nil
}

// Every turn is run by a process of its own, so that one that hangs or crashes harms
// no other, and each begins with an empty heap.

// An order is what a child is told.
type order struct {
	Workload  string
	Contender string
	Conns     int
	Scale     scale
}

// serve runs the turn that a child has been told to.
func serve(parent *child.Parent) error {
	var ord order
	if err := parent.Hear(&ord); err != nil {
		return err
	}
	kind, ok := contender.Find(ord.Contender)
	if !ok {
		return fmt.Errorf("no contender %q", ord.Contender)
	}
	for _, w := range workloads(ord.Scale) {
		if w.name == ord.Workload {
			o, err := w.run(turn{kind: kind, conns: ord.Conns, scale: ord.Scale})
			if err != nil {
				return err
			}
			return parent.Tell(o)
		}
	}
	return fmt.Errorf("no workload %q", ord.Workload)
}

// delegate has a child run a turn, and returns why there is no outcome if there
// is none.
func delegate(ctx context.Context, ord order) (o outcome, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, ord.Scale.Limit, fmt.Errorf("still running after %v", ord.Scale.Limit))
	defer cancel()
	var stderr bytes.Buffer
	c, err := child.Start("turn", ord, child.Options{Stderr: &stderr})
	if err != nil {
		return o, err
	}
	defer context.AfterFunc(limited, c.Kill)()
	heard, ended := c.Hear(&o), c.Stop()
	switch {
	case limited.Err() != nil:
		return outcome{}, context.Cause(limited)
	case ended != nil:
		line, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return outcome{}, fmt.Errorf("%w: %s", ended, cmp.Or(strings.TrimPrefix(line, "turn: "), "it said nothing"))
	}
	return o, heard
}
