package main

import (
	"context"
	"io"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// askForPings puts a connection to an echo server under a heartbeat.
func askForPings(c *client) (span, error) {
	begin := time.Now()
	_, err := c.Write([]byte{modePing})
	return span{begin, time.Now()}, err
}

// answer is silent but for the answers to pings, and must live.
func answer(open func(*client) (span, error)) func(context.Context, *client) outcome {
	return func(ctx context.Context, c *client) outcome {
		since, err := open(c)
		p := newPulse(staleAfter, since.from)
		for err == nil {
			var b [1]byte
			c.SetReadDeadline(time.Time{}) // were there no pings, the server would end it
			if _, err = io.ReadFull(c, b[:]); err != nil {
				break
			}
			if ctx.Err() != nil {
				return c.leave(p)
			}
			_, err = c.say(p, []byte{pong})
			if p.overdue {
				return outcome{verdict: left, unsure: true} // whatever comes of it
			}
		}
		return c.cut(p, err)
	}
}

// ignore never answers, and has to be closed.
func ignore(open func(*client) (span, error)) func(context.Context, *client) outcome {
	return func(_ context.Context, c *client) outcome {
		since, err := open(c)
		if err != nil {
			return c.cut(newPulse(staleAfter, since.from), err)
		}
		return c.stale(since, staleAfter, idle.ReasonHeartbeat)
	}
}
