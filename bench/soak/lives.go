package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// A life is what a client does on a connection, from its beginning to its end.
type life struct {
	name   string
	weight int
	live   func(ctx context.Context, c *client) outcome
}

// An exchange asks the server for something and gets an answer.
type exchange func(c *client, p *pulse) error

// choose draws a life.
func choose(lives []life, rng *rand.Rand) life {
	sum := 0
	for _, l := range lives {
		sum += l.weight
	}
	n := rng.IntN(sum)
	for _, l := range lives {
		if n -= l.weight; n < 0 {
			return l
		}
	}
	panic("unreachable")
}

// active exchanges something well within every limit. It must never be closed.
// It leaves when ctx ends.
func active(ask exchange) func(context.Context, *client) outcome {
	return regular(ask, limit/8, limit/2)
}

// comeback exchanges something just before its limit, again and again.
func comeback(ask exchange) func(context.Context, *client) outcome {
	return regular(ask, limit-150*time.Millisecond, limit-20*time.Millisecond)
}

func regular(ask exchange, least, most time.Duration) func(context.Context, *client) outcome {
	return func(ctx context.Context, c *client) outcome {
		p := newPulse(limit, c.since.from)
		for {
			if err := ask(c, p); err != nil {
				return c.cut(p, err)
			}
			if !pause(ctx, time.Until(p.last.Add(c.between(least, most)))) {
				return c.leave(p)
			}
		}
	}
}

// leaveAtOnce is gone before the server knows it, by FIN or by RST.
func leaveAtOnce(_ context.Context, c *client) outcome {
	if c.rng.IntN(2) == 0 {
		c.SetLinger(0)
	}
	return outcome{verdict: left}
}
