package main

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/server"
)

// A load sends requests over many connections, one at a time on each.
type load interface {
	// run keeps all connections busy for the given time, after it has warmed up. It
	// leaves no answer outstanding.
	run(d time.Duration) (turn, error)
	close()
}

// warmUp is how long a load runs before exchanges a second are counted. A server
// that was idle until then is up to a third slower for some 10 ms, but hardly so if
// timers kept it awake; that was seen, and not explained.
const warmUp = 20 * time.Millisecond

// A turn is what a load has done, and what that has cost the server.
type turn struct {
	opsPerS float64       // exchanges a second, while all connections were busy
	ops     int           // exchanges in all
	cpu     time.Duration // for these
}

// connect connects the load to a server.
func connect(kind, address string, cfg config) (load, error) {
	e := exchangeOf(kind)
	request := e.request(cfg.size)
	response, err := e.measure(func() (net.Conn, error) { return dial(kind, address) }, cfg.size)
	if err != nil {
		return nil, fmt.Errorf("the first exchange: %w", err)
	}
	if kind == server.HTTPS {
		return connectTLS(address, cfg.conns, request, response)
	}
	return connectPlain(address, cfg.conns, request, response)
}

// patience is how long an answer may take.
const patience = 5 * time.Second

// measure finds how long an answer is, by two real ones that have to agree.
func (e exchange) measure(dial func() (net.Conn, error), size int) (int, error) {
	c, err := dial()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	count := &counter{from: c}
	in := bufio.NewReader(count)
	var ends [2]int
	for i := range ends {
		if _, err := c.Write(e.request(size)); err != nil {
			return 0, err
		}
		if err := e.answer(in, size); err != nil {
			return 0, err
		}
		ends[i] = count.n - in.Buffered()
	}
	if ends[1] != 2*ends[0] {
		return 0, fmt.Errorf("an answer has %d bytes, and the next one %d", ends[0], ends[1]-ends[0])
	}
	return ends[0], nil
}

func dial(kind, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: patience}
	if kind == server.HTTPS {
		return tls.DialWithDialer(dialer, "tcp", address, server.ClientTLS())
	}
	return dialer.Dial("tcp", address)
}

// A counter counts what is read through it.
type counter struct {
	from io.Reader
	n    int
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.n += n
	return n, err
}

// connections are connections to a server of any kind.
type connections struct {
	all      []net.Conn
	request  []byte
	response int
}

// open adds connections.
func (c *connections) open(kind, address string, n int) error {
	for range n {
		nc, err := dial(kind, address)
		if err != nil {
			return fmt.Errorf("connection %d: %w", len(c.all)+1, err)
		}
		c.all = append(c.all, nc)
	}
	return nil
}

func (c *connections) close() {
	for _, nc := range c.all {
		if tcp, ok := nc.(*net.TCPConn); ok {
			tcp.SetLinger(0) // or its port waits for a minute
		}
		nc.Close()
	}
	c.all = nil
}

// tlsLoad is a load by goroutines that speak TLS. It costs about as much as the
// server does, so the requests a second say less here than what a request has
// cost the server. The cost is the same whatever the variant.
type tlsLoad struct{ connections }

func connectTLS(address string, conns int, request []byte, response int) (load, error) {
	l := &tlsLoad{connections{request: request, response: response}}
	if err := l.open(server.HTTPS, address, conns); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *tlsLoad) run(d time.Duration) (turn, error) {
	type share struct {
		done, ops int
		err       error
	}
	from := time.Now().Add(warmUp)
	until := from.Add(d)
	shares := make(chan share)
	for _, c := range l.all {
		c.SetDeadline(until.Add(patience))
		go func() {
			done, ops, err := l.keepBusy(c, from, until)
			shares <- share{done, ops, err}
		}()
	}
	var sum share
	for range l.all {
		s := <-shares
		sum = share{sum.done + s.done, sum.ops + s.ops, cmp.Or(sum.err, s.err)}
	}
	return turn{opsPerS: float64(sum.done) / d.Seconds(), ops: sum.ops}, sum.err
}

// keepBusy exchanges over c, and returns how many exchanges were complete between
// the given times, and how many in all: the last one was so later.
func (l *tlsLoad) keepBusy(c net.Conn, from, until time.Time) (done, ops int, err error) {
	b := make([]byte, l.response)
	for {
		if _, err := c.Write(l.request); err != nil {
			return done, ops, err
		}
		if _, err := io.ReadFull(c, b); err != nil {
			return done, ops, err
		}
		ops++
		switch now := time.Now(); {
		case !now.Before(until):
			return done, ops, nil
		case !now.Before(from):
			done++
		}
	}
}
