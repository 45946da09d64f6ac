package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/idle"
)

func http2Lives() []life {
	return []life{
		{"active", 4, http2Regular(limit/8, limit/2)},
		{"comeback", 2, http2Regular(limit-150*time.Millisecond, limit-20*time.Millisecond)},
		{"silent from the start", 1, silentFromStart(idle.ReasonReadTotal)},
		{"silent after a response", 3, http2Silent(pathPage, idle.ReasonReadTotal)},
		{"silent with a stream open", 1, http2Silent(pathHang, idle.ReasonIdle)},
		{"leaves at once", 2, leaveAtOnce},
	}
}

// A browser is an HTTP/2 client on one connection, which it watches.
type browser struct {
	http.Transport
	wire *wire
}

func (c *client) browser() *browser {
	w := &wire{Conn: c.TCPConn, ended: make(chan struct{}), moved: c.since}
	b := &browser{wire: w}
	b.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // it is our own, and made up
	b.ForceAttemptHTTP2 = true
	var used atomic.Bool
	b.DialContext = func(context.Context, string, string) (net.Conn, error) {
		if used.Swap(true) {
			return nil, errors.New("the connection has ended")
		}
		return w, nil
	}
	return b
}

// get gets a page.
func (b *browser) get(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, "GET", "https://soak"+path, nil)
	if err != nil {
		return err
	}
	res, err := b.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if string(body) != pageText || res.ProtoMajor != 2 {
		return fmt.Errorf("got %q by %s", body, res.Proto)
	}
	return nil
}

// hangUp closes the connection and waits until the transport knows it, so that
// it leaves no goroutine.
func (b *browser) hangUp() {
	b.wire.Conn.Close()
	b.CloseIdleConnections()
}

// http2Regular gets a page now and then, and must not be closed.
func http2Regular(least, most time.Duration) func(context.Context, *client) outcome {
	return func(ctx context.Context, c *client) outcome {
		b := c.browser()
		defer b.hangUp()
		p := newPulse(limit, c.since.from)
		for {
			begin := time.Now()
			if err := b.get(context.Background(), pathPage); err != nil {
				return c.http2Cut(b, p, begin, err)
			}
			p.heard(begin)
			if !pause(ctx, time.Until(p.last.Add(c.between(least, most)))) {
				return c.leave(p)
			}
		}
	}
}

// http2Cut judges the end of a connection that was to live. What the transport
// wrote, and when, and when the end came, is known from the wire.
func (c *client) http2Cut(b *browser, p *pulse, begin time.Time, err error) outcome {
	select {
	case <-b.wire.ended:
	case <-time.After(c.grace):
		return violation(0, "a page: %v", err)
	}
	moved, at := b.wire.history()
	if !moved.from.Before(begin) {
		p.wrote(moved.from, moved.to)
	}
	return c.cutAt(p, at, err)
}

// http2Silent asks for something, and then is silent.
func http2Silent(path string, reason idle.Reason) func(context.Context, *client) outcome {
	return func(_ context.Context, c *client) outcome {
		b := c.browser()
		defer b.hangUp()
		var asking, answered time.Time // set before done receives
		trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { asking = time.Now() }}
		done := make(chan error, 1)
		go func() {
			err := b.get(httptrace.WithClientTrace(context.Background(), trace), path)
			answered = time.Now()
			done <- err
		}()
		defer func() { <-done }()
		defer b.wire.Conn.Close() // the request is over with the connection
		if path != pathHang {
			err := <-done
			done <- err
			if err != nil {
				return c.cut(newPulse(limit, c.since.from), err)
			}
		}
		for asked := time.Now(); ; {
			slack := c.slack(asked, time.Now())
			select {
			case <-b.wire.ended:
			case <-time.After(time.Until(asked.Add(2*limit + slack))):
				if c.slack(asked, time.Now()) > slack {
					continue
				}
				return violation(0, "not closed within %v of its limit of %v", slack, limit)
			}
			break
		}
		since, at := b.wire.history()
		if reason == idle.ReasonReadTotal {
			// The wait for a request counts from the response. The transport may
			// acknowledge the server's settings after that; it restarts nothing.
			since = span{asking, answered}
		}
		return c.ended(since, limit, at, []idle.Reason{reason})
	}
}

// A wire is a client's connection that notes when something moves on it.
type wire struct {
	net.Conn
	ended chan struct{} // closed when the server has closed it
	once  sync.Once

	mu    sync.Mutex
	moved span      // from when the last write began, until something last moved
	at    time.Time // when the end came
}

func (w *wire) Write(b []byte) (int, error) {
	begin := time.Now()
	n, err := w.Conn.Write(b)
	w.note(begin)
	return n, err
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.note(time.Time{})
	}
	if err != nil {
		w.once.Do(func() {
			w.mu.Lock()
			w.at = time.Now()
			w.mu.Unlock()
			close(w.ended)
		})
	}
	return n, err
}

// note notes a move, a write if it has a beginning. What the transport writes
// because of the end is none.
func (w *wire) note(began time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.at.IsZero() {
		return
	}
	w.moved.to = time.Now()
	if !began.IsZero() {
		w.moved.from = began
	}
}

// history returns when something last moved, and when the end came.
func (w *wire) history() (span, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.moved, w.at
}
