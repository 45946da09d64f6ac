package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewheel/idlewheel/examples/fleet/node"
)

// dial connects to the engine of a fleet that runs.
func dial(o options) (*nats.Conn, error) {
	if o.engine == "" {
		url, err := os.ReadFile(urlFile())
		if err != nil {
			return nil, fmt.Errorf("no fleet runs here, or -nats has to say where: %w", err)
		}
		o.engine = string(url)
	}
	return nats.Connect(o.engine, nats.Timeout(2*time.Second))
}

// sayWho prints where clients are.
func sayWho(ctx context.Context, o options, clients []string) error {
	nc, err := dial(o)
	if err != nil {
		return err
	}
	defer nc.Close()
	places, err := node.Who(ctx, nc, clients...)
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
	nc, err := dial(o)
	if err != nil {
		return err
	}
	defer nc.Close()
	states, err := node.States(ctx, nc, 1<<10, time.Second)
	if err != nil {
		return err
	}
	begun := time.Now()
	verdicts, err := changeLimits(ctx, nc, len(states), settings...)
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

// drainNode empties a node, and prints how it gets on.
func drainNode(ctx context.Context, o options, name string) error {
	nc, err := dial(o)
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := node.Drain(ctx, nc, name, o.over); err != nil {
		return err
	}
	for ctx.Err() == nil {
		states, err := node.States(ctx, nc, 1<<10, time.Second)
		if err != nil {
			return err
		}
		left := -1
		for _, s := range states {
			if s.Node == name && s.Draining {
				left = s.Clients
			}
		}
		if left < 0 {
			fmt.Println(name, "is empty, and has ended")
			return nil
		}
		fmt.Println(name, "has", left, "clients left")
	}
	return ctx.Err()
}

// changeLimits changes limits, such as idle=30s, and returns what want nodes say to that within
// a few seconds. It does not check them: the nodes do. If somebody else changes them at the
// same time, one of the two fails.
func changeLimits(ctx context.Context, nc *nats.Conn, want int, settings ...string) ([]node.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, control, err := node.Buckets(ctx, nc)
	if err != nil {
		return nil, err
	}
	before := uint64(0) // the revision that is replaced
	if e, err := control.Get(ctx, node.KeyLimits); err == nil {
		before = e.Revision()
	} else if !errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, err
	}
	states, err := node.States(ctx, nc, 1, time.Second)
	switch {
	case err != nil:
		return nil, err
	case len(states) == 0:
		return nil, errors.New("no node answers; is the fleet running?")
	case states[0].Limits.Revision < before:
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
		states, err := node.States(ctx, nc, want, time.Second)
		if err != nil {
			return nil, err
		}
		var verdicts []node.Verdict
		for _, s := range states {
			if s.Limits.Revision >= revision {
				verdicts = append(verdicts, s.Limits)
			}
		}
		if len(verdicts) >= want || ctx.Err() != nil {
			return verdicts, nil
		}
		wait(ctx, 5*time.Millisecond)
	}
}
