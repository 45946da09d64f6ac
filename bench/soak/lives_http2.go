package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/idle"
)

// A browser is an HTTP/2 client on one connection, which it watches.
type browser struct {
	net.Conn
	transport http.Transport
	asked     time.Time // when the last request was about to be written; zero before

	ended chan struct{} // closed when the server has closed
	mu    sync.Mutex
	used  bool
	moved span      // from when the last write began, until something last moved
	at    time.Time // when the end came
}

// browse makes a browser of the client, unless it is one.
func (c *client) browse() *browser {
	if c.browser != nil {
		return c.browser
	}
	b := &browser{Conn: c.TCPConn, ended: make(chan struct{}), moved: c.since}
	b.transport.TLSClientConfig = server.ClientTLS()
	b.transport.ForceAttemptHTTP2 = true
	b.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.used {
			return nil, errors.New("the connection has ended")
		}
		b.used = true
		return b, nil
	}
	c.browser = b
	return b
}

// get gets a page.
func (b *browser) get(path string) error {
	b.asked = time.Time{}
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { b.asked = time.Now() }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), "GET", "https://soak"+path, nil)
	if err != nil {
		return err
	}
	res, err := b.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	return checkPage(res, 2)
}

// page2 gets a page over HTTP/2.
func page2(c *client, p *pulse) error {
	err := c.browse().get(pathPage)
	if err == nil {
		p.heard(c.browser.asked)
	}
	return err
}

// hang2 asks for what is not answered, and then is silent.
func hang2(_ context.Context, c *client) outcome {
	b := c.browse()
	answered := make(chan error, 1)
	go func() { answered <- b.get(pathHang) }()
	at, err := c.awaitEnd(time.Now(), 2*limit)
	if err != nil {
		return violation(0, "%v", err)
	}
	<-answered // by the end
	moved, _ := b.history()
	o := c.ended(moved, limit, at, idle.ReasonIdle)
	if o.reason == idle.ReasonReadTotal && (b.asked.IsZero() || moved.to.Sub(c.since.from) >= limit) {
		return outcome{verdict: draw, reason: o.reason} // the client was too late to ask
	}
	return o
}

func (b *browser) Write(p []byte) (int, error) {
	begin := time.Now()
	n, err := b.Conn.Write(p)
	b.note(begin)
	b.end(err)
	return n, err
}

func (b *browser) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if n > 0 {
		b.note(time.Time{})
	}
	b.end(err)
	return n, err
}

// end notes the end of the connection, which is where reading or writing fails.
func (b *browser) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && b.at.IsZero() {
		b.at = time.Now()
		close(b.ended)
	}
}

// note notes that something moved; it was written if it has a beginning. What the
// transport writes because of the end is not noted.
func (b *browser) note(began time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.at.IsZero() {
		return
	}
	b.moved.to = time.Now()
	if !began.IsZero() {
		b.moved.from = began
	}
}

// history returns when something last moved, and when the end came.
func (b *browser) history() (span, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.moved, b.at
}
