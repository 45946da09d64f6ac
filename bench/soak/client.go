package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A client lives one life on one connection.
type client struct {
	target *target
	terms
	rng *rand.Rand

	*net.TCPConn
	entry *entry
	since span // when the connection was made

	// Of a client that speaks HTTP/2.
	tls    *tls.Conn
	stream uint32 // the next one is this and 1
}

// dial connects. The client must hang up.
func (t *target) dial(granted terms, rng *rand.Rand) (*client, error) {
	begin := time.Now()
	nc, err := net.DialTimeout("tcp", t.Address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	t.dials.Add(1)
	e := t.ledger.enter(nc.LocalAddr())
	return &client{
		target: t, terms: granted, rng: rng, TCPConn: nc.(*net.TCPConn),
		entry: e, since: span{begin, time.Now()},
	}, nil
}

func (c *client) hangUp() {
	c.target.ledger.strike(c.LocalAddr())
	c.Close()
}

// stale waits for and judges the end of a connection that was to be closed.
func (c *client) stale(since span, limit time.Duration, reason idle.Reason) outcome {
	at, err := c.awaitEnd(since.to, limit)
	if err != nil {
		told, _ := c.target.ledger.wait(c.entry, 0)
		return violation(told, "%v", err)
	}
	return c.ended(since, limit, limit, at, reason)
}

// ended judges an end that was due at least and at most so long after since.
func (c *client) ended(since span, least, most time.Duration, at time.Time, want idle.Reason) outcome {
	late, fault := judge(since, least, most, c.slack(since.to, at), at)
	reason, _ := c.target.ledger.wait(c.entry, c.grace)
	if fault == "" && reason != want {
		fault = fmt.Sprintf("wrong reason, want %v", want)
	}
	if fault != "" {
		o := violation(reason, "%s", fault)
		o.at = at
		return o
	}
	return outcome{verdict: closed, reason: reason, late: late, precise: least == most, at: at}
}

// cut judges the end of a connection that was to live.
func (c *client) cut(p *pulse, err error) outcome {
	at := time.Now()
	reason, _ := c.target.ledger.wait(c.entry, c.grace)
	if p.excuses(at) {
		return outcome{verdict: draw, reason: reason}
	}
	o := violation(reason, "a live one was closed, %v of its %v after it wrote: %v", at.Sub(p.last), p.limit, err)
	o.at = at
	return o
}

// spoiled returns the outcome of a life that cannot go on as it was to, after what the
// client has said: it was late, or failed.
func (c *client) spoiled(p *pulse, err error) (o outcome, spoiled bool) {
	switch {
	case p.overdue: // the connection may have timed out
		return outcome{verdict: left, unsure: true}, true
	case err != nil:
		return c.cut(p, err), true
	}
	return o, false
}

// leave ends a life in which the connection was to live.
func (c *client) leave(p *pulse) outcome {
	return outcome{verdict: left, unsure: p.excuses(time.Now().Add(leaving))}
}

// leaving is how long it may take until a server has seen that a client has left:
// both have to get to run for that. Its limit may pass meanwhile.
const leaving = 5 * tick

// awaitEnd waits until the server closes. It fails if that has not happened when
// the end is due, so long after since, and overdue by the slack.
func (c *client) awaitEnd(since time.Time, due time.Duration) (time.Time, error) {
	for {
		slack := c.slack(since, time.Now())
		if at, ok := c.endBy(since.Add(due + slack)); ok {
			return at, nil
		}
		if c.slack(since, time.Now()) <= slack {
			return time.Time{}, fmt.Errorf("not closed within %v of its limit of %v", slack, due)
		}
	}
}

// endBy waits until the server closes, for as long as it is given.
func (c *client) endBy(by time.Time) (at time.Time, ok bool) {
	c.SetReadDeadline(by)
	_, err := io.Copy(io.Discard, c.TCPConn)
	return time.Now(), !errors.Is(err, os.ErrDeadlineExceeded)
}

// say writes b, and notes it.
func (c *client) say(p *pulse, b []byte) (begin time.Time, err error) {
	begin = time.Now()
	_, err = c.Write(b)
	if err == nil {
		p.wrote(begin, time.Now())
	}
	return begin, err
}

// between draws a duration.
func (c *client) between(least, most time.Duration) time.Duration {
	return least + time.Duration(c.rng.Int64N(int64(most-least)))
}
