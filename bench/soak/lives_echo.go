package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// The first byte that a client sends to an echo server says what it wants.
const (
	modeEcho   = 'e' // its bytes back
	modePing   = 'p' // to be pinged
	modeStream = 's' // bytes without end
	modeHalf   = 'h' // words until long after it has closed its side
)

// What is said under a heartbeat, and after half of the connection is closed.
const (
	ping = 'P'
	pong = 'p'

	halfWords = 8
	halfEvery = limit / 4

	halfPatience = time.Minute // more than any stall; the idle timeout would end it long before
)

// A word tells when it was said.
type word [8]byte

var began = time.Now()

func newWord() (w word) {
	binary.LittleEndian.PutUint64(w[:], uint64(time.Since(began)))
	return w
}

func (w word) said() time.Time {
	return began.Add(time.Duration(binary.LittleEndian.Uint64(w[:])))
}

func echoLives() []life {
	return []life{
		{"active", 4, active(echo)},
		{"comeback", 2, comeback(echo)},
		{"silent from the start", 1, silentFromStart(idle.ReasonIdle)},
		{"silent", 3, silentAfter(echo, idle.ReasonIdle)},
		{"leaves at once", 2, leaveAtOnce},
		{"reads above the rate", 1, readAbove(string(rune(modeStream)))},
		{"reads below the rate", 1, readBelow(string(rune(modeStream)))},
		{"answers pings", 1, answer(askForPings)},
		{"ignores pings", 1, ignore(askForPings)},
	}
}

func netLives() []life {
	return append(echoLives(), life{"half-closes and listens", 1, halfCloseAndListen})
}

func gnetLives() []life {
	return append(echoLives(), life{"half-closes", 1, halfClose})
}

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

func silentFromStart(reason idle.Reason) func(context.Context, *client) outcome {
	return func(_ context.Context, c *client) outcome { return c.stale(c.since, limit, reason) }
}

// silentAfter says something, and then no more.
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

// halfCloseAndListen closes its side, and must get all that is said to it for
// two limits.
func halfCloseAndListen(_ context.Context, c *client) outcome {
	p := newPulse(limit, c.since.from)
	if _, err := c.say(p, []byte{modeHalf}); err != nil {
		return c.cut(p, err)
	}
	c.CloseWrite()
	c.SetReadDeadline(time.Now().Add(halfWords*halfEvery + limit + halfPatience))
	for n := 0; ; n++ {
		var w word
		_, err := io.ReadFull(c, w[:])
		switch {
		case err == nil:
			p.heard(w.said()) // what the server sends keeps it as well
		case n == halfWords && err == io.EOF:
			return outcome{verdict: left}
		default:
			return c.halfCut(p, n, err)
		}
	}
}

// halfCut judges a half-closed connection that did not get all its words. The
// server speaks, so if it is late its lateness is the machine's.
func (c *client) halfCut(p *pulse, n int, err error) outcome {
	o := c.cut(p, err)
	if o.verdict == violated {
		o.fault = fmt.Sprintf("half-closed, got %d of %d words: %s", n, halfWords, o.fault)
	}
	return o
}

// halfClose closes its side; a server that is told of no such thing, like
// gnet's, ends the connection. That is no timeout.
func halfClose(_ context.Context, c *client) outcome {
	p := newPulse(limit, c.since.from)
	if err := echo(c, p); err != nil {
		return c.cut(p, err)
	}
	c.CloseWrite()
	if _, err := c.awaitEnd(time.Now(), 0); err != nil {
		return violation(0, "half-closed, and not ended: %v", err)
	}
	return outcome{verdict: left, unsure: p.excuses(time.Now())}
}
