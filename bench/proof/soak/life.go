package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
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
	raw  net.Conn         // of echo servers, and of lives that don't get to a request
	web  *http.ClientConn // of the others
	last time.Time        // the server has seen something at this time, or later
}

// dial connects. A raw client of a server of HTTP speaks no TLS, and makes no requests.
func (t *target) dial(raw bool) (c *client, err error) {
	c = &client{target: t, last: time.Now()}
	t.tally.mu.Lock()
	t.tally.Dials++
	t.tally.mu.Unlock()
	if raw || t.kind == server.Net || t.kind == server.Gnet {
		c.raw, err = net.DialTimeout("tcp", t.Address, patience)
		return c, err
	}
	scheme, tr := "http", &http.Transport{TLSClientConfig: server.ClientTLS(), Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(t.kind != server.HTTP2)
	tr.Protocols.SetHTTP2(t.kind == server.HTTP2)
	if t.kind == server.HTTPS || t.kind == server.HTTP2 {
		scheme = "https"
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c.web, err = tr.NewClientConn(ctx, scheme, t.Address)
	return c, err
}

const patience = time.Minute // is longer than any stall

func (c *client) close() {
	if c.raw != nil {
		c.raw.Close()
	} else {
		c.web.Close()
	}
}

// exchange asks the server for something and gets the answer.
func (c *client) exchange() (err error) {
	begun := time.Now()
	var b []byte
	if c.raw != nil {
		b = make([]byte, len(server.Greeting))
		c.raw.SetReadDeadline(begun.Add(patience))
		if _, err = io.WriteString(c.raw, server.Greeting); err == nil {
			_, err = io.ReadFull(c.raw, b)
		}
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://localhost/", nil)
		var resp *http.Response
		if resp, err = c.web.RoundTrip(req); err == nil {
			b, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
	}
	if err == nil && string(b) != server.Greeting {
		err = fmt.Errorf("%q comes back", b)
	}
	if err == nil {
		c.last = begun
	}
	return err
}

// open waits until the server has ended the connection, or a time. It reports whether it's open.
func (c *client) open(by time.Time) bool {
	if c.raw != nil {
		c.raw.SetReadDeadline(by)
		_, err := io.Copy(io.Discard, c.raw)
		return errors.Is(err, os.ErrDeadlineExceeded)
	}
	for time.Now().Before(by) {
		if c.web.Err() != nil {
			return false
		}
		time.Sleep(2 * time.Millisecond)
	}
	return true
}

// live lives a life, and notes the outcome.
func (s *soak) live(ctx context.Context, t *target, life int, rng *rand.Rand) {
	c, err := t.dial(life == silentAtFirst || life == trickler)
	var o outcome
	switch {
	case err != nil && time.Since(c.last) >= limit:
		o.unsure = true // a handshake has a limit too
	case err != nil:
		o.fault = fmt.Sprintf("cannot connect: %v", err)
		program.Sleep(ctx, limit)
	case life == active:
		o = c.beActive(ctx, rng)
	case life == silent:
		o = c.fallSilent(s.slack, 1+rng.IntN(3))
	case life == trickler && (t.kind == server.HTTP || t.kind == server.Fasthttp):
		o = c.trickle(s.slack)
	case life == leaver:
		program.Sleep(ctx, time.Duration(rng.Int64N(int64(limit/2))))
		o.unsure = time.Since(c.last) >= limit*9/10
	default:
		o = c.fallSilent(s.slack, 0)
	}
	if err == nil {
		c.close()
	}
	t.tally.add(o)
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
func (c *client) fallSilent(slack time.Duration, times int) outcome {
	for range times {
		if err := c.exchange(); err != nil {
			return c.closed(err)
		}
	}
	reason := idle.ReasonPhase // HandshakeTimeout, or KeepAliveTimeout of HTTP/2
	switch {
	case c.kind == server.Net || c.kind == server.Gnet:
		reason = idle.ReasonIdle
	case times > 0 && c.kind != server.HTTP2:
		reason = idle.ReasonRead
	}
	return c.awaitEnd(c.last, time.Now(), slack, reason)
}

// trickle sends a header that never ends.
func (c *client) trickle(slack time.Duration) outcome {
	from := time.Now()
	io.WriteString(c.raw, "GET / HTTP/1.1\r\nX: ")
	to := time.Now()
	if to.Sub(c.last) >= limit {
		return outcome{unsure: true}
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(limit / 10):
				io.WriteString(c.raw, "x")
			}
		}
	}()
	return c.awaitEnd(from, to, slack, idle.ReasonPhase)
}

// awaitEnd waits until the server closes. The limit counts from a time between from and to:
// whether the end is early goes by the first, and whether it is late by the second, so that a
// delay of the client never looks like a fault of the server.
func (c *client) awaitEnd(from, to time.Time, slack time.Duration, reason idle.Reason) outcome {
	open := c.open(to.Add(limit + slack))
	switch at := time.Now(); {
	case open:
		return outcome{fault: fmt.Sprintf("kept for more than %v beyond its limit", slack)}
	case at.Sub(from) < limit:
		return outcome{fault: fmt.Sprintf("closed %v before its limit", limit-at.Sub(from))}
	default:
		return outcome{reason: reason, late: max(0, at.Sub(to)-limit)}
	}
}
