package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"

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
	verdicts, err := node.SetLimits(ctx, nc, len(states), settings...)
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
