package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/server"
)

// A load sends requests over many connections, one at a time on each.
type load interface {
	// run sends requests for the given time, after it has warmed up: as many as the
	// server answers, or at the pace of the load. It leaves no answer outstanding.
	run(d time.Duration) (turn, error)
	close()
}

// warmUp is how long a load runs before exchanges a second are counted. A server
// that was idle until then is up to a third slower for some 10 ms, but hardly so if
// timers kept it awake; that was seen, and not explained.
const warmUp = 20 * time.Millisecond

// A turn is what a load has done, and what that has cost the server.
type turn struct {
	opsPerS  float64       // exchanges a second, after the warm-up
	ops      int           // exchanges in all
	cpu      time.Duration // for these
	switches int           // context switches meanwhile
}

// connect connects the load to a server.
func connect(kind, address string, cfg config) (load, error) {
	c, err := newConnections(kind, address, cfg.size)
	if err != nil {
		return nil, err
	}
	if kind != server.HTTPS {
		return connectPlain(c, cfg)
	}
	if err := c.open(cfg.conns); err != nil {
		c.close()
		return nil, err
	}
	return &tlsLoad{c}, nil
}

// patience is how long an answer may take.
const patience = 30 * time.Second

// connections are connections to a server of any kind, and what goes over them: a
// request, and answers that all have the same length.
type connections struct {
	kind, address string
	all           []net.Conn
	request       []byte
	response      int
}

// newConnections returns no connection yet. Messages of echo servers have size bytes.
func newConnections(kind, address string, size int) (*connections, error) {
	c := &connections{kind: kind, address: address, request: bytes.Repeat([]byte{'x'}, size), response: size}
	if kind == server.Net || kind == server.Gnet {
		return c, nil
	}
	c.request = []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	var err error
	if c.response, err = c.get(); err != nil {
		return nil, fmt.Errorf("the first exchange: %w", err)
	}
	return c, nil
}

// get gets an answer of HTTP, checks it, and returns its length. All have the same
// because a date has.
func (c *connections) get() (length int, err error) {
	nc, err := dial(c.kind, c.address)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	if _, err := nc.Write(c.request); err != nil {
		return 0, err
	}
	var raw bytes.Buffer
	in := bufio.NewReader(io.TeeReader(nc, &raw))
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	if res.StatusCode != http.StatusOK || string(body) != server.Greeting {
		return 0, fmt.Errorf("the answer is %q with status %s", body, res.Status)
	}
	return raw.Len() - in.Buffered(), nil
}

func dial(kind, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: patience}
	if kind == server.HTTPS {
		return tls.DialWithDialer(dialer, "tcp", address, server.ClientTLS())
	}
	return dialer.Dial("tcp", address)
}

// open adds connections.
func (c *connections) open(n int) error {
	for range n {
		nc, err := dial(c.kind, c.address)
		if err != nil {
			return fmt.Errorf("connection %d: %w", len(c.all)+1, err)
		}
		c.all = append(c.all, nc)
	}
	return nil
}

func (c *connections) close() {
	for _, nc := range c.all {
		nc.Close()
	}
	c.all = nil
}

// tlsLoad is a load by goroutines that speak TLS. It costs about as much as the
// server does, so the requests a second say less here than what a request has
// cost the server. The cost is the same whatever the variant.
type tlsLoad struct{ *connections }

func (l *tlsLoad) run(d time.Duration) (turn, error) {
	from := time.Now().Add(warmUp)
	until := from.Add(d)
	var done, ops atomic.Int64
	failed := make(chan error, len(l.all))
	for _, c := range l.all {
		c.SetDeadline(until.Add(patience))
		go func() { failed <- l.keepBusy(c, from, until, &done, &ops) }()
	}
	var err error
	for range l.all {
		err = cmp.Or(err, <-failed)
	}
	t := turn{opsPerS: float64(done.Load()) / d.Seconds(), ops: int(ops.Load())}
	if done.Load() == 0 { // d was too short for the machine: the exchanges that ended the turn are all that there were
		t.opsPerS = float64(len(l.all)) / time.Since(from).Seconds()
	}
	return t, err
}

// keepBusy exchanges over c, and counts how many exchanges were complete between
// the given times, and how many in all: the last one was so later.
func (l *tlsLoad) keepBusy(c net.Conn, from, until time.Time, done, ops *atomic.Int64) error {
	b := make([]byte, l.response)
	for {
		if _, err := c.Write(l.request); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, b); err != nil {
			return err
		}
		ops.Add(1)
		switch now := time.Now(); {
		case !now.Before(until):
			return nil
		case !now.Before(from):
			done.Add(1)
		}
	}
}
