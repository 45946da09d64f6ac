package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewheel/idlewheel/examples/fleet/node"
)

// dial connects to the engine of a fleet that runs.
func dial(o options) (*node.Fleet, error) {
	if o.engine == "" {
		url, err := os.ReadFile(urlFile())
		if err != nil {
			return nil, fmt.Errorf("no fleet runs here, or -nats has to say where: %w", err)
		}
		o.engine = string(url)
	}
	f, err := node.Connect(node.Config{Name: "command", Fleet: o.fleet, Engine: o.engine, Replicas: o.replicas})
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(5 * time.Second); !f.IsConnected(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			defer f.Close()
			return nil, fmt.Errorf("no NATS server answers at %s: %w", o.engine, cmp.Or(f.LastError(), nats.ErrTimeout))
		}
	}
	return f, nil
}

// sayWho prints where clients are.
func sayWho(ctx context.Context, o options, clients []string) error {
	f, err := dial(o)
	if err != nil {
		return err
	}
	defer f.Close()
	states, err := f.States(ctx, 1, time.Second)
	if err != nil {
		return err
	} else if len(states) > 0 {
		f.Partitions = states[0].Partitions
	}
	places, err := f.Who(ctx, clients...)
	if err != nil {
		return err
	}
	for _, c := range clients {
		if p, ok := places[c]; ok {
			fmt.Printf("%s is at %s, session %d\n", c, p.Node, p.Session)
		} else {
			fmt.Printf("%s is nowhere\n", c)
		}
	}
	return nil
}

// setLimits changes limits, and prints what the nodes say.
func setLimits(ctx context.Context, o options, settings []string) error {
	f, err := dial(o)
	if err != nil {
		return err
	}
	defer f.Close()
	states, err := f.States(ctx, 1<<10, time.Second)
	if err != nil {
		return err
	}
	begun := time.Now()
	verdicts, err := changeLimits(ctx, f, len(states), settings...)
	states = slices.DeleteFunc(states, keepsDirectoriesOnly)
	if err != nil {
		return err
	}
	for _, v := range verdicts {
		if v.Refused != "" {
			err = errors.New("the limits stay as they are")
			fmt.Printf("%s refuses: %s\n", v.Node, v.Refused)
		} else {
			fmt.Printf("%s has %+v\n", v.Node, v.Limits)
		}
	}
	fmt.Printf("%d of %d nodes have answered after %v\n", len(verdicts), len(states), time.Since(begun).Round(time.Millisecond))
	if err == nil && len(verdicts) < len(states) {
		err = errors.New("the others have not said whether they have the limits")
	}
	return err
}

// drainNode empties a node, and prints how it gets on. It fails unless the node has said that
// it is empty.
func drainNode(ctx context.Context, o options, name string) error {
	f, err := dial(o)
	if err != nil {
		return err
	}
	defer f.Close()
	epoch, _, err := f.Holds(ctx, name)
	if err != nil {
		return err
	}
	lastWord, err := f.Drain(ctx, name, o.over)
	if err != nil {
		return err
	}
	left, at := -1, time.Now() // what the node has said last, and when
	for ctx.Err() == nil {
		if n, err := lastWord(time.Second); err == nil && n == 0 {
			fmt.Println(name, "is empty, and has ended")
			return nil
		} else if err == nil {
			return fmt.Errorf("%s has ended, and %d clients were left", name, n)
		}
		states, err := f.States(ctx, 1<<10, time.Second)
		if err != nil {
			fmt.Println("the engine is away:", err)
		}
		for _, s := range states {
			if s.Node == name && s.Draining {
				left, at = s.Clients, time.Now()
				fmt.Println(name, "has", left, "clients left")
			}
		}
		if time.Since(at) < 5*time.Second {
			continue // one answer may be lost
		}
		now, holds, err := f.Holds(ctx, name)
		switch {
		case err != nil:
			fmt.Println("whether", name, "still has its lease is not known:", err)
		case !holds || now != epoch:
			return fmt.Errorf("%s has lost its lease, and has not said that it is empty; it had %s", name, clients(left))
		}
		if time.Since(at) > o.over+time.Minute {
			return fmt.Errorf("%s has not answered for %v, so how many clients are left is not known; it had %s", name, time.Since(at).Round(time.Second), clients(left))
		}
	}
	return ctx.Err()
}

// clients says how many clients a node had when it answered last.
func clients(n int) string {
	if n < 0 {
		return "never answered"
	}
	return fmt.Sprintf("%d clients when it answered last", n)
}

// keepsDirectoriesOnly reports whether a process has no clients, and so no limits either.
func keepsDirectoriesOnly(s node.State) bool { return s.Lease.Address == "" }

// changeLimits changes limits, such as idle=30s, and returns what the nodes say to that within
// a few seconds. It knows that all have if so many processes have answered. It does not check them: the nodes do. If somebody else changes them at the
// same time, one of the two fails.
func changeLimits(ctx context.Context, f *node.Fleet, processes int, settings ...string) ([]node.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	control, err := f.Control(ctx)
	if err != nil {
		return nil, err
	}
	before := uint64(0) // the revision that is replaced
	if e, err := control.Get(ctx, node.KeyLimits); err == nil {
		before = e.Revision()
	} else if !errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, err
	}
	states, err := f.States(ctx, processes, time.Second)
	states = slices.DeleteFunc(states, keepsDirectoriesOnly)
	switch {
	case err != nil:
		return nil, err
	case len(states) == 0:
		return nil, errors.New("no node answers; is the fleet running?")
	case states[0].Limits.Revision < control.Number(before) && before > 0:
		return nil, fmt.Errorf("%s has not seen the last change of limits yet; try again", states[0].Node)
	}
	text, _ := json.Marshal(states[0].Limits.Limits) // those that hold, which need not be those that were set last
	all := map[string]any{}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	for _, s := range settings {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not like idle=30s", s)
		}
		all[name] = value
	}
	text, _ = json.Marshal(all)
	var revision uint64
	if before > 0 {
		revision, err = control.Update(ctx, node.KeyLimits, text, before)
	} else {
		revision, err = control.Create(ctx, node.KeyLimits, text)
	}
	if err != nil {
		return nil, fmt.Errorf("the limits are not changed; if somebody else has just changed them, try again: %w", err)
	}
	for {
		states, err := f.States(ctx, processes, time.Second)
		if err != nil {
			return nil, err
		}
		all := len(states) >= processes
		var verdicts []node.Verdict
		for _, s := range slices.DeleteFunc(states, keepsDirectoriesOnly) {
			if s.Limits.Revision >= control.Number(revision) {
				verdicts = append(verdicts, s.Limits)
			} else {
				all = false
			}
		}
		if all || ctx.Err() != nil {
			return verdicts, nil
		}
		wait(ctx, 5*time.Millisecond)
	}
}
