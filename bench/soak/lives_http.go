package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

// The paths of the HTTP servers.
const (
	pathPage   = "/"
	pathStream = "/stream" // bytes without end
	pathBody   = "/body"   // reads the body, then answers
	pathHang   = "/hang"   // answers when the client is gone
	pathPings  = "/pings"  // hands the connection over, and pings it
	pageText   = "hello, world\n"
)

// get is a request as a client of HTTP/1 writes it.
func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: soak\r\n\r\n" }

func httpLives() []life {
	return []life{
		{"active", 4, active(page)},
		{"comeback", 2, comeback(page)},
		{"silent from the start", 1, silentFromStart(idle.ReasonReadTotal)},
		{"silent after a response", 3, silentAfter(page, idle.ReasonRead)},
		{"leaves at once", 2, leaveAtOnce},
		{"header trickles", 1, trickleHeader},
		{"body trickles", 1, trickleBody},
		{"reads above the rate", 1, readAbove(get(pathStream))},
		{"reads below the rate", 1, readBelow(get(pathStream))},
		{"half-closes", 1, halfCloseRequest},
	}
}

// page gets a page over HTTP/1.
func page(c *client, p *pulse) error {
	begin, err := c.say(p, []byte(get(pathPage)))
	if err != nil {
		return err
	}
	if err := c.readPage(); err != nil {
		return err
	}
	p.heard(begin)
	return nil
}

// readPage reads a response. Nothing is read beyond it, as nothing was asked for.
func (c *client) readPage() error {
	c.SetReadDeadline(time.Time{})
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK || string(body) != pageText {
		return fmt.Errorf("got %s and %q", res.Status, body)
	}
	return nil
}

const trickleEvery = limit / 10

// trickleHeader sends a header byte by byte, and has to be closed all the same,
// when its limit for the whole of it is over.
func trickleHeader(_ context.Context, c *client) outcome {
	begin := time.Now()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nX: "); err != nil {
		return violation(0, "a header that begins: %v", err)
	}
	since := span{begin, time.Now()}
	at, _, err := c.trickle(since.to, limit)
	if err != nil {
		return violation(0, "a header that trickles: %v", err)
	}
	return c.ended(since, limit, at, []idle.Reason{idle.ReasonReadTotal})
}

// trickleBody sends a body too slowly. It announces more than it will ever send,
// but not much: fasthttp makes room for all of it at once, and keeps that with
// the connection, so the heap would rise for as long as it takes until all
// connections that live on have got one of those.
func trickleBody(_ context.Context, c *client) outcome {
	begin := time.Now()
	if _, err := io.WriteString(c, "POST "+pathBody+" HTTP/1.1\r\nHost: soak\r\nContent-Length: 20000\r\n\r\n"); err != nil {
		return violation(0, "the header of a body: %v", err)
	}
	since := span{begin, time.Now()}
	r := ration{bodyRate, bodyGrace}
	at, n, err := c.trickle(since.to, 2*bodyGrace)
	if err != nil {
		return violation(0, "a body that trickles: %v", err)
	}
	reason, _ := c.srv.ledger.wait(c.entry, c.grace)
	if fault := judgeSlow(since, r, 0, n, c.slack(since.to, at), at); fault != "" {
		return violation(reason, "a body that trickles was %s", fault)
	}
	if reason != idle.ReasonMinReadRate {
		return violation(reason, "a body that trickles was ended for a wrong reason")
	}
	return outcome{verdict: closed, reason: reason, at: at}
}

// trickle sends a byte now and then until the server closes, and returns when
// that was and how many were sent. It fails as awaitEnd does.
func (c *client) trickle(since time.Time, due time.Duration) (at time.Time, n int, err error) {
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		every := time.NewTicker(trickleEvery)
		defer every.Stop()
		for {
			select {
			case <-stop:
				return
			case <-every.C:
			}
			if _, err := c.Write([]byte{'x'}); err != nil {
				return
			}
			n++
		}
	}()
	at, err = c.awaitEnd(since, due)
	close(stop)
	<-done
	return at, n, err
}

// halfCloseRequest sends a request and closes its side: it must have its
// response, and then the server ends the connection.
func halfCloseRequest(_ context.Context, c *client) outcome {
	p := newPulse(limit, c.since.from)
	if _, err := c.say(p, []byte(get(pathPage))); err != nil {
		return c.cut(p, err)
	}
	c.CloseWrite()
	if err := c.readPage(); err != nil {
		return c.cut(p, err)
	}
	if _, err := c.awaitEnd(time.Now(), 0); err != nil {
		return violation(0, "half-closed, and not ended: %v", err)
	}
	return outcome{verdict: left, unsure: p.excuses(time.Now())}
}
