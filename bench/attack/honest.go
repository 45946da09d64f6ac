package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Clients are honest clients of a kind, and what became of their requests.
type clients struct {
	address  string
	secure   bool
	patience time.Duration
	control  func(network, address string, c syscall.RawConn) error // of new sockets
	latency  *spread                                                // of requests that succeeded

	mu       sync.Mutex
	requests int
	failed   int
	missed   int
	err      error // of the first that failed
}

func newClients(address string, cfg config) *clients {
	return &clients{address: address, secure: cfg.secure(), patience: cfg.patience, latency: newSpread()}
}

// done counts a request that was to be made at the given time.
func (c *clients) done(intended time.Time, err error) {
	if err == nil {
		c.latency.add(time.Since(intended))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	if err != nil {
		c.failed++
		if c.err == nil {
			c.err = err
		}
	}
}

// miss counts requests that were not made because the client was still waiting
// for the answer to another.
func (c *clients) miss(requests int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missed += requests
}

// A client makes requests, one after the other.
type client struct {
	*clients
	conn net.Conn
	in   *bufio.Reader
}

// requestsPerConn is after how many requests a client comes by a new connection,
// as honest clients do not stay for ever.
const requestsPerConn = 10

// run makes a request every so often until ctx is done. Latency is counted from
// when a request was to be made, so that an answer that delays the next request
// is not taken for a client that had nothing to ask.
func (c *client) run(ctx context.Context, every time.Duration) {
	defer c.leave()
	next := time.Now()
	for i := 0; pause(ctx, time.Until(next)); i++ {
		if i%requestsPerConn == 0 {
			c.leave()
		}
		err := c.request(i)
		c.done(next, err)
		if err != nil {
			c.leave()
		}
		next = next.Add(every)
		if missed := int(min(time.Since(next), timeLeft(ctx, next)) / every); missed > 0 {
			c.miss(missed)
			next = next.Add(time.Duration(missed) * every)
		}
	}
}

// timeLeft returns how long before the deadline of ctx t is.
func timeLeft(ctx context.Context, t time.Time) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return math.MaxInt64
	}
	return deadline.Sub(t)
}

// pause waits, and reports whether ctx is not done.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// request makes one of three requests.
func (c *client) request(i int) error {
	if err := c.come(time.Now().Add(c.patience)); err != nil {
		return err
	}
	switch i % 3 {
	case 0:
		return c.get(12, everything)
	case 1:
		return c.get(64<<10, everything)
	}
	const size = 4 << 10
	if err := c.write(postHeader(size) + strings.Repeat("x", size)); err != nil {
		return err
	}
	return c.answer(2, everything)
}

func postHeader(size int) string {
	return fmt.Sprintf("POST /2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", size)
}

// come connects the client, unless it is.
func (c *client) come(deadline time.Time) error {
	if c.conn == nil {
		d := net.Dialer{Deadline: deadline, Control: c.control}
		conn, err := d.Dial("tcp", c.address)
		if err != nil {
			return err
		}
		if c.secure {
			conn = secure(conn, false)
		}
		c.conn, c.in = conn, bufio.NewReader(conn)
	}
	return c.conn.SetDeadline(deadline)
}

// leave ends the client's connection, if there is one.
func (c *client) leave() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// get gets so many bytes, which read reads.
func (c *client) get(size int, read func(io.Reader) (int64, error)) error {
	if err := c.write(fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n", size)); err != nil {
		return err
	}
	return c.answer(size, read)
}

func (c *client) write(text string) error {
	_, err := io.WriteString(c.conn, text)
	return err
}

// answer takes the answer, which has to have so many bytes.
func (c *client) answer(size int, read func(io.Reader) (int64, error)) error {
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the status is %s", res.Status)
	}
	n, err := read(res.Body)
	if err == nil && n != int64(size) {
		err = fmt.Errorf("the answer has %d bytes; there should be %d", n, size)
	}
	return err
}

func everything(from io.Reader) (int64, error) { return io.Copy(io.Discard, from) }
