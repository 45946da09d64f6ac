package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/idle"
)

// The lives that clients lead.
const (
	active        = iota // exchanges something at least every three quarters of the limit, and must not be closed
	silent               // exchanges something, then falls silent, and has to be closed
	silentAtFirst        // says nothing, and has to be closed
	leaver               // leaves before its limit
	trickler             // of HTTP/1: sends a header byte by byte, and has to be closed
	numLives
)

// An outcome is how a life ended.
type outcome struct {
	reason idle.Reason // what the server has closed it for, as it had to; 0 if the client left
	late   time.Duration
	unsure bool   // the client was late itself
	fault  string // it ended wrongly
}

// A client lives one life on one connection.
type client struct {
	*target
	*server.Client
	last time.Time // the server has seen something at this time, or later
}

// exchange asks the server for something and gets the answer.
func (c *client) exchange() error {
	begun := time.Now()
	err := c.Exchange()
	if err == nil {
		c.last = begun
	}
	return err
}

// live lives a life, and notes the outcome. Some lives on servers of HTTP don't get to a request, nor to TLS.
func (t *target) live(ctx context.Context, life int, rng *rand.Rand) {
	kind := t.kind
	if life == silentAtFirst || life == trickler {
		kind = server.Net
	}
	c := &client{target: t, last: time.Now()}
	var err error
	var o outcome
	switch c.Client, err = server.Dial(kind, t.Address); {
	case err != nil && time.Since(c.last) >= limit:
		o.unsure = true // a handshake has a limit too
	case err != nil:
		o.fault = fmt.Sprintf("cannot connect: %v", err)
		program.Sleep(ctx, limit)
	case life == active:
		o = c.beActive(ctx, rng)
	case life == silent:
		o = c.fallSilent(1 + rng.IntN(3))
	case life == trickler && (t.kind == server.HTTP || t.kind == server.Fasthttp):
		o = c.trickle()
	case life == leaver:
		program.Sleep(ctx, time.Duration(rng.Int64N(int64(limit/2))))
		o.unsure = time.Since(c.last) >= limit*9/10
	default:
		o = c.fallSilent(0)
	}
	if err == nil {
		c.Close()
	}
	t.add(o)
}

// closed is the outcome of a connection that was closed and should not have been.
func (c *client) closed(err error) outcome {
	if silence := time.Since(c.last); silence < limit {
		return outcome{fault: fmt.Sprintf("closed %v after it wrote: %v", silence, err)}
	}
	return outcome{unsure: true}
}

// beActive must not be closed. It leaves when ctx ends.
func (c *client) beActive(ctx context.Context, rng *rand.Rand) outcome {
	for {
		if err := c.exchange(); err != nil {
			return c.closed(err)
		}
		if !program.Sleep(ctx, limit/8+time.Duration(rng.Int64N(int64(limit*5/8)))) {
			return outcome{unsure: time.Since(c.last) >= limit*9/10} // the server may not see in time that it leaves
		}
	}
}

// fallSilent exchanges something some times, and then waits to be closed.
func (c *client) fallSilent(times int) outcome {
	for range times {
		if err := c.exchange(); err != nil {
			return c.closed(err)
		}
	}
	reason := idle.ReasonPhase // HandshakeTimeout, or KeepAliveTimeout
	if c.kind == server.Net || c.kind == server.Gnet {
		reason = idle.ReasonIdle
	}
	return c.awaitEnd(c.last, time.Now(), reason)
}

// trickle sends a header that never ends.
func (c *client) trickle() outcome {
	from := time.Now()
	io.WriteString(c.Raw, "GET / HTTP/1.1\r\nX: ")
	to := time.Now()
	if to.Sub(c.last) >= limit {
		return outcome{unsure: true}
	}
	go func() {
		for err := error(nil); err == nil; _, err = io.WriteString(c.Raw, "x") { // until the connection is closed
			time.Sleep(limit / 10)
		}
	}()
	return c.awaitEnd(from, to, idle.ReasonPhase)
}

// awaitEnd waits until the server closes. The limit counts from a time between from and to:
// whether the end is early goes by the first, and whether it is late by the second, so that a
// delay of the client never looks like a fault of the server.
func (c *client) awaitEnd(from, to time.Time, reason idle.Reason) outcome {
	open := c.IsOpen(to.Add(limit + slack))
	switch at := time.Now(); {
	case open:
		return outcome{fault: fmt.Sprintf("kept for more than %v beyond its limit", slack)}
	case at.Sub(from) < limit:
		return outcome{fault: fmt.Sprintf("closed %v before its limit", limit-at.Sub(from))}
	default:
		return outcome{reason: reason, late: max(0, at.Sub(to)-limit)}
	}
}
