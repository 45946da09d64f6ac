package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// A client lives one life on one connection.
type client struct {
	srv *server
	terms
	rng *rand.Rand

	*net.TCPConn
	entry *entry
	since span // when the connection was made
}

// dial connects. Whoever it returns must hang up.
func (s *server) dial(t terms, rng *rand.Rand) (*client, error) {
	begin := time.Now()
	nc, err := net.DialTimeout("tcp", s.address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	s.dials.Add(1)
	return &client{
		srv: s, terms: t, rng: rng, TCPConn: nc.(*net.TCPConn),
		entry: s.ledger.enter(nc.LocalAddr()), since: span{begin, time.Now()},
	}, nil
}

func (c *client) hangUp() {
	c.srv.ledger.strike(c.LocalAddr())
	c.Close()
}

// stale judges the end of a connection that was to be closed, for one of the
// reasons.
func (c *client) stale(since span, limit time.Duration, reasons ...idle.Reason) outcome {
	at, err := c.awaitEnd(since.to, limit)
	if err != nil {
		reason, _ := c.srv.ledger.wait(c.entry, 0)
		return violation(reason, "%v", err)
	}
	return c.ended(since, limit, at, reasons)
}

// ended judges an end that was due.
func (c *client) ended(since span, limit time.Duration, at time.Time, reasons []idle.Reason) outcome {
	late, fault := judgeStale(since, limit, c.slack(since.to, at), at)
	reason, _ := c.srv.ledger.wait(c.entry, c.grace)
	if fault == "" && !slices.Contains(reasons, reason) {
		fault = fmt.Sprintf("wrong reason, want %v", reasons)
	}
	if fault != "" {
		return violation(reason, "%s", fault)
	}
	return outcome{verdict: closed, reason: reason, late: late, precise: true, at: at}
}

// cut judges the end of a connection that was to live.
func (c *client) cut(p *pulse, err error) outcome { return c.cutAt(p, time.Now(), err) }

// cutAt is cut for an end that came at a known moment.
func (c *client) cutAt(p *pulse, at time.Time, err error) outcome {
	reason, _ := c.srv.ledger.wait(c.entry, c.grace)
	if p.excuses(at) {
		return outcome{verdict: draw, reason: reason}
	}
	return violation(reason, "a live one was closed, %v of its %v after it wrote: %v", at.Sub(p.last), p.limit, err)
}

// leave ends a life in which the connection was to live.
func (c *client) leave(p *pulse) outcome {
	return outcome{verdict: left, unsure: p.excuses(time.Now().Add(leaving))}
}

// leaving is how long it may take until a server has seen that a client has left:
// both have to get to run for that. Its limit may pass meanwhile.
const leaving = 5 * tick

// awaitEnd reads until the server closes. It fails if that has not happened so
// long after since, and the slack.
func (c *client) awaitEnd(since time.Time, due time.Duration) (time.Time, error) {
	for {
		by := since.Add(due + c.slack(since, time.Now()))
		c.SetReadDeadline(by)
		_, err := io.Copy(io.Discard, c.TCPConn)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return time.Now(), nil
		}
		if slack := c.slack(since, time.Now()); !since.Add(due + slack).After(by) {
			return time.Time{}, fmt.Errorf("not closed within %v of its limit of %v", slack, due)
		}
	}
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

// pause waits, and reports whether the life is to go on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// between draws a duration.
func (c *client) between(least, most time.Duration) time.Duration {
	return least + time.Duration(c.rng.Int64N(int64(most-least)))
}
