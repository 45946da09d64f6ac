package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/child"
	"github.com/idlewheel/idlewheel/bench/internal/machine"
	"github.com/idlewheel/idlewheel/bench/internal/usage"
	"github.com/idlewheel/idlewheel/bench/peers/contender"
)

// Every turn is run by a process of its own, so that one that hangs, crashes or
// eats all memory harms no other, and each begins with an empty heap.

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
	all := workloads(ord.Scale)
	i := slices.IndexFunc(all, func(w workload) bool { return w.name == ord.Workload })
	if i < 0 {
		return fmt.Errorf("no workload %q", ord.Workload)
	}
	o, err := all[i].run(turn{kind: kind, conns: ord.Conns, scale: ord.Scale})
	if err != nil {
		return err
	}
	return parent.Tell(o)
}

// delegate has a child run a turn, and returns why there is no outcome if there
// is none.
func delegate(ctx context.Context, ord order) (outcome, error) {
	limited, cancel := context.WithTimeout(ctx, ord.Scale.Limit)
	defer cancel()
	var stderr bytes.Buffer
	c, err := child.Start("turn", ord, child.Options{Stderr: &stderr})
	if err != nil {
		return outcome{}, err
	}
	heard := make(chan error, 1)
	var o outcome
	go func() { heard <- c.Hear(&o) }()
	fault := watch(limited, c)
	err = errors.Join(<-heard, fault)
	ended := c.Stop()
	switch {
	case ctx.Err() != nil:
		return outcome{}, ctx.Err()
	case limited.Err() != nil:
		return outcome{}, fmt.Errorf("still running after %v", ord.Scale.Limit)
	case fault != nil:
		return outcome{}, fault
	case ended != nil:
		return outcome{}, fmt.Errorf("%w: %s", ended, firstLine(&stderr))
	}
	return o, err
}

// watch returns when c has ended. It kills c when ctx is done, or when c takes more
// memory than it may, which it returns.
func watch(ctx context.Context, c *child.Child) error {
	most := machine.FreeMemory() / 10 * 7
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-c.Ended():
			return nil
		case <-ctx.Done():
			c.Kill()
			return nil
		case <-look.C:
			if used := usage.Resident(c.Pid()); most > 0 && used > most {
				c.Kill()
				return fmt.Errorf("took %d MiB of memory, more than 70 %% of what is free", used>>20)
			}
		}
	}
}

// firstLine returns what a process had to say, in short.
func firstLine(stderr *bytes.Buffer) string {
	line, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
	return cmp.Or(strings.TrimPrefix(line, "turn: "), "it said nothing")
}
