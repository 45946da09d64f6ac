package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
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

// page gets a page over HTTP/1.
func page(c *client, p *pulse) error {
	begin := time.Now()
	err := askPage(c, p)
	if err == nil {
		err = c.readPage()
	}
	if err == nil {
		p.heard(begin)
	}
	return err
}

// askPage asks for a page, and leaves the answer to be read.
func askPage(c *client, p *pulse) error {
	_, err := c.say(p, []byte(get(pathPage)))
	return err
}

// readPage reads a response. Nothing is read beyond it, as nothing was asked for.
func (c *client) readPage() error {
	c.SetReadDeadline(time.Time{})
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || string(body) != pageText) {
		err = fmt.Errorf("got %s and %q", res.Status, body)
	}
	return err
}

// upgrade asks for the connection to be handed over and pinged, as WebSockets
// are.
func upgrade(c *client, p *pulse) (span, error) {
	begin, err := c.say(p, []byte("GET "+pathPings+" HTTP/1.1\r\nHost: soak\r\nConnection: Upgrade\r\nUpgrade: pings\r\n\r\n"))
	if err != nil {
		return span{begin, begin}, err
	}
	c.SetReadDeadline(time.Now().Add(patience))
	// If this is half a limit late, its buffer swallows the first ping. Then the
	// second is answered.
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	since := span{begin, time.Now()}
	if err == nil && res.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("got %s", res.Status)
	}
	return since, err
}

// trickleHeader sends a header byte by byte. It has to be closed when the limit
// for the whole of it has passed.
func trickleHeader(_ context.Context, c *client) outcome {
	p := newPulse(limit, c.since.from)
	since, at, _, err := c.trickle(p, "GET / HTTP/1.1\r\nX: ", limit)
	switch {
	case p.overdue:
		return tooLate()
	case err != nil:
		return violation(0, "a header that trickles: %v", err)
	}
	return c.ended(since, limit, limit, at, idle.ReasonReadTotal)
}

// trickleBody sends a body too slowly. It announces more than it will ever send,
// but not much: fasthttp makes room for all of it at once and keeps that with the
// connection, so the heap would rise until all connections have such room.
func trickleBody(_ context.Context, c *client) outcome {
	p := newPulse(limit, c.since.from)
	since, at, n, err := c.trickle(p, "POST "+pathBody+" HTTP/1.1\r\nHost: soak\r\nContent-Length: 20000\r\n\r\n", 2*bodyGrace)
	switch {
	case p.overdue:
		return tooLate()
	case err != nil:
		return violation(0, "a body that trickles: %v", err)
	}
	r := ration{bodyRate, bodyGrace}
	return c.ended(since, r.paid(0), r.paid(n), at, idle.ReasonMinReadRate)
}

const trickleEvery = limit / 10

// trickle sends a beginning, and then a byte now and then until the server
// closes. It returns when it began, when the end was, and how many bytes were
// sent between. It fails as awaitEnd does.
func (c *client) trickle(p *pulse, beginning string, due time.Duration) (since span, at time.Time, n int, err error) {
	if since.from, err = c.say(p, []byte(beginning)); err != nil || p.overdue {
		return since, at, 0, err
	}
	since.to = time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	var sending sync.WaitGroup
	sending.Go(func() {
		for program.Sleep(ctx, trickleEvery) {
			if _, err := c.Write([]byte{'x'}); err != nil {
				return
			}
			n++
		}
	})
	at, err = c.awaitEnd(since.to, due)
	cancel()
	sending.Wait()
	return since, at, n, err
}
