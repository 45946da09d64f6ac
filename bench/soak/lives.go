package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/idle"
)

// A life is what a client does on a connection, from its beginning to its end.
type life struct {
	name   string
	weight int
	live   func(ctx context.Context, c *client) outcome
}

// An exchange asks the server for something and gets an answer.
type exchange func(c *client, p *pulse) error

// An opening has a connection pinged from then on, and returns when that was.
type opening func(c *client, p *pulse) (span, error)

// The lives on each kind of server. The first is also what the veterans do.

func echoLives() []life {
	stream := string(rune(modeStream))
	return append(commonLives(echo, "silent", idle.ReasonIdle, idle.ReasonIdle),
		life{"reads above the rate", 1, readSlowly(stream, fastEnough)},
		life{"reads below the rate", 1, readSlowly(stream, tooSlow)},
		life{"answers pings", 1, answer(askForPings, readPing)},
		life{"ignores pings", 1, ignore(askForPings)},
		life{"half-closes", 1, halfClose(echo, nil)})
}

func httpLives() []life {
	return append(commonLives(page, "silent after a response", idle.ReasonReadTotal, idle.ReasonRead),
		life{"header trickles", 1, trickleHeader},
		life{"body trickles", 1, trickleBody},
		life{"reads above the rate", 1, readSlowly(get(pathStream), fastEnough)},
		life{"reads below the rate", 1, readSlowly(get(pathStream), tooSlow)},
		life{"half-closes", 1, halfClose(askPage, (*client).readPage)})
}

func http2Lives() []life {
	return append(commonLives(page2, "silent after a response", idle.ReasonReadTotal, idle.ReasonReadTotal),
		life{"silent with a stream open", 1, hang2})
}

func hijackLives() []life {
	return []life{
		{"answers pings", 4, answer(upgrade, readPing)},
		{"answers pings late", 2, answer(upgrade, letPingsBy)},
		{"ignores pings", 3, ignore(upgrade)},
		{"leaves at once", 2, leaveAtOnce},
		{"silent from the start", 1, silentFromStart(idle.ReasonReadTotal)},
	}
}

// commonLives are those on servers that answer. A connection on which nothing was
// said, or nothing after an answer, times out for the given reasons.
func commonLives(ask exchange, silent string, unused, used idle.Reason) []life {
	return []life{
		{"active", 4, regular(ask, limit/8, limit/2)},
		{"comeback", 2, regular(ask, limit-150*time.Millisecond, limit-20*time.Millisecond)},
		{"silent from the start", 1, silentFromStart(unused)},
		{silent, 3, silentAfter(ask, used)},
		{"leaves at once", 2, leaveAtOnce},
	}
}

// choose draws a life.
func choose(lives []life, rng *rand.Rand) life {
	var all []life
	for _, l := range lives {
		all = append(all, slices.Repeat([]life{l}, l.weight)...)
	}
	return all[rng.IntN(len(all))]
}

// regular exchanges something again and again, the next time between least and
// most after the last one, and must not be closed. It leaves when ctx ends.
func regular(ask exchange, least, most time.Duration) func(context.Context, *client) outcome {
	return func(ctx context.Context, c *client) outcome {
		p := newPulse(limit, c.since.from)
		for {
			if err := ask(c, p); err != nil {
				return c.cut(p, err)
			}
			if !program.Sleep(ctx, time.Until(p.last.Add(c.between(least, most)))) {
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

func silentFromStart(reason idle.Reason) func(context.Context, *client) outcome {
	return func(_ context.Context, c *client) outcome { return c.stale(c.since, limit, reason) }
}

// silentAfter exchanges something, and then says no more.
func silentAfter(ask exchange, reason idle.Reason) func(context.Context, *client) outcome {
	return func(_ context.Context, c *client) outcome {
		p := newPulse(limit, c.since.from)
		for range 1 + c.rng.IntN(3) {
			if err := ask(c, p); err != nil {
				return c.cut(p, err)
			}
		}
		return c.stale(span{p.last, time.Now()}, limit, reason)
	}
}

// halfClose asks, closes its side, and takes the answer, if it has not had it. The
// server ends the connection then, which is no timeout.
func halfClose(ask exchange, take func(*client) error) func(context.Context, *client) outcome {
	return func(_ context.Context, c *client) outcome {
		p := newPulse(limit, c.since.from)
		if err := ask(c, p); err != nil {
			return c.cut(p, err)
		}
		c.CloseWrite()
		if take != nil {
			if err := take(c); err != nil {
				return c.cut(p, err)
			}
		}
		if _, err := c.awaitEnd(time.Now(), 0); err != nil {
			return violation(0, "half-closed, and not ended: %v", err)
		}
		return outcome{verdict: left, unsure: p.excuses(time.Now())}
	}
}

// patience is longer than any stall.
const patience = time.Minute

// answer is silent but for the answers to pings, and must live. It waits for a
// ping before each.
func answer(open opening, wait func(ctx context.Context, c *client, p *pulse) error) func(context.Context, *client) outcome {
	return func(ctx context.Context, c *client) outcome {
		p := newPulse(limit, c.since.from)
		since, err := open(c, p)
		if o, spoiled := c.spoiled(p, err); spoiled {
			return o
		}
		p = newPulse(staleAfter, since.from)
		for err == nil {
			if err = wait(ctx, c, p); err != nil {
				break
			}
			if ctx.Err() != nil {
				return c.leave(p)
			}
			_, err = c.say(p, []byte{pong})
			if p.overdue {
				return tooLate()
			}
		}
		return c.cut(p, err)
	}
}

func readPing(_ context.Context, c *client, _ *pulse) error {
	c.SetReadDeadline(time.Time{}) // were there no pings, the server would end it
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// letPingsBy waits until just before the limit.
func letPingsBy(ctx context.Context, c *client, p *pulse) error {
	program.Sleep(ctx, time.Until(p.last.Add(c.between(staleAfter-150*time.Millisecond, staleAfter-20*time.Millisecond))))
	return nil
}

// ignore never answers, and has to be closed.
func ignore(open opening) func(context.Context, *client) outcome {
	return func(_ context.Context, c *client) outcome {
		p := newPulse(limit, c.since.from)
		since, err := open(c, p)
		if o, spoiled := c.spoiled(p, err); spoiled {
			return o
		}
		return c.stale(since, staleAfter, idle.ReasonHeartbeat)
	}
}

// The first byte that a client sends to an echo server says what it wants.
const (
	modeEcho   = 'e' // its bytes back
	modePing   = 'p' // to be pinged
	modeStream = 's' // bytes without end
)

// What is said under a heartbeat.
const ping, pong = 'P', 'p'

// echo sends something and wants it back.
func echo(c *client, p *pulse) error {
	sent := fmt.Appendf(nil, "%c%d", modeEcho, c.rng.Uint32())
	begin, err := c.say(p, sent)
	if err != nil {
		return err
	}
	got := make([]byte, len(sent))
	c.SetReadDeadline(time.Time{})
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	p.heard(begin)
	if !bytes.Equal(got, sent) {
		return fmt.Errorf("sent %q, got %q", sent, got)
	}
	return nil
}

// askForPings puts a connection to an echo server under a heartbeat.
func askForPings(c *client, p *pulse) (span, error) {
	begin, err := c.say(p, []byte{modePing})
	return span{begin, time.Now()}, err
}
