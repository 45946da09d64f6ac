package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

const (
	// receiveBuffer makes what the kernel takes in the client's place small
	// against what the rate asks for.
	receiveBuffer = 16 << 10
	// atMostUnread is how much that can be: the kernel doubles what it is told,
	// and lets one segment of loopback exceed it.
	atMostUnread = 2*receiveBuffer + 64<<10

	readStep   = 50 * time.Millisecond
	slowLife   = 3 * limit
	fastEnough = 4 * writeRate
	tooSlow    = writeRate / 8
)

var writeRation = ration{writeRate, writeGrace}

// readSlowly takes a stream at a rate, which is either fast enough, or too slow:
// then it has to be cut.
func readSlowly(request string, rate int) func(context.Context, *client) outcome {
	return func(_ context.Context, c *client) outcome {
		c.SetReadBuffer(receiveBuffer)
		p := newPulse(limit, c.since.from)
		begin, err := c.say(p, []byte(request))
		if o, spoiled := c.spoiled(p, err); spoiled {
			return o
		}
		return c.sip(span{begin, time.Now()}, rate)
	}
}

// sip reads at a rate until the server has had enough, or the life is over. For
// another reason than the rate the server may tell of a timeout that the request
// averts; only if the connection ends that counts.
func (c *client) sip(since span, rate int) outcome {
	taken, chunk := 0, make([]byte, rate/2)
	for {
		time.Sleep(readStep)
		reason, at := c.target.ledger.wait(c.entry, 0)
		switch {
		case reason == idle.ReasonMinWriteRate:
			return c.judgeSip(since, rate, taken, at)
		case rate > writeRate && time.Since(since.to) > slowLife:
			return outcome{verdict: left, unsure: time.Since(since.from) > writeRation.paid(taken)}
		case rate < writeRate && time.Since(since.to) > writeRation.paid(taken+atMostUnread)+c.slack(since.to, time.Now()):
			return violation(reason, "reads too slowly, %d bytes in %v, and is not cut", taken, time.Since(since.to))
		}
		quota := int(float64(rate)*time.Since(since.from).Seconds()) - taken
		if quota <= 0 {
			continue
		}
		c.SetReadDeadline(time.Now().Add(readStep))
		n, err := c.Read(chunk[:min(len(chunk), quota)])
		taken += n
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			reason, at := c.target.ledger.wait(c.entry, c.grace)
			if reason == 0 {
				return violation(0, "a slow reader was closed, but not by a timeout: %v", err)
			}
			return c.judgeSip(since, rate, taken, at)
		}
	}
}

// judgeSip judges the end of a slow reader, which the server has told of: bytes
// that are under way hide it from the client. What its kernel had acknowledged before a
// write of the server's had to wait buys no time, even if the client takes it later.
func (c *client) judgeSip(since span, rate, taken int, at time.Time) outcome {
	most := taken + atMostUnread
	if rate > writeRate {
		most = 1 << 30 // it may have been slower than it meant to be, as the machine is busy; that is no lateness
	}
	least := max(0, taken-atMostUnread)
	o := c.ended(since, writeRation.paid(least), writeRation.paid(most), at, idle.ReasonMinWriteRate)
	if o.verdict == closed && rate > writeRate {
		o.verdict = draw
	}
	return o
}
