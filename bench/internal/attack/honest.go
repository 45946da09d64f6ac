package attack

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/program"
	"github.com/idlewheel/idlewheel/bench/internal/server"
	"github.com/idlewheel/idlewheel/bench/internal/spread"
)

// Clients are honest clients of a kind. They make requests, one after the other,
// and count what becomes of them.
type clients struct {
	Config
	address  string
	every    time.Duration // between the beginnings of requests; 0: each follows the last answer
	patience time.Duration
	request  func(i int) request
	receive  int // the size of their sockets' receive buffers; 0: as the system has it
	perConn  int // after how many requests a client comes by a new connection

	latency *spread.Spread // of requests that succeeded, from when they were to be made

	mu sync.Mutex
	service
}

const dialTimeout = 10 * time.Second

func getRequest(size int) string {
	return fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n", size)
}

// postRequest returns a request without its body, which has so many bytes. The
// answer has two.
func postRequest(size int) string {
	return fmt.Sprintf("POST /2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", size)
}

// A request is what a client sends, and how it takes the answer.
type request struct {
	head   string
	piece  string // the body consists of so many
	pieces int
	answer int           // the size of the answer
	chunk  int           // how much of it is taken at a time; 0: all
	pause  time.Duration // after each piece and each chunk
}

// quick is one of three small requests.
func quick(i int) request {
	const small, medium, body = 12, 64 << 10, 4 << 10
	return []request{
		{head: getRequest(small), answer: small},
		{head: getRequest(medium), answer: medium},
		{head: postRequest(body), piece: strings.Repeat("x", body), pieces: 1, answer: 2},
	}[i%3]
}

// Slow clients are honest: their bytes come and go steadily, and faster than they
// have to, but a request takes longer than a timeout for the whole of it allows.

// slowness is how long the request of a slow client takes.
func (l *Limits) slowness() time.Duration { return 2 * max(l.Header, l.Body, l.Write) }

const (
	slowPause  = time.Second / 20
	slowBuffer = 16 << 10 // does not hide from the server that a client is slow
)

// upload sends a body slowly.
func (l *Limits) upload(int) request {
	r := request{answer: 2, pause: slowPause}
	r.piece = strings.Repeat("x", max(1, 2*int(int64(l.Rate)*int64(slowPause)/int64(time.Second))))
	r.pieces = int(l.slowness() / slowPause)
	r.head = postRequest(r.pieces * len(r.piece))
	return r
}

// download takes an answer slowly. It is a film, as that is much more than the
// buffers hold: else the server would not know that the client is slow.
func (l *Limits) download(int) request {
	return request{head: getRequest(len(film)), answer: len(film), chunk: len(film) / int(l.slowness()/slowPause), pause: slowPause}
}

// run has a client make requests from an address, or any, until ctx is done. Latency is counted from when
// a request was to be made. One that was not made in time because the client was
// still waiting for an answer is missed.
func (c *clients) run(ctx context.Context, from net.Addr) {
	v := visit{clients: c, from: from}
	defer v.leave()
	next := time.Now()
	for i := 0; program.Sleep(ctx, time.Until(next)); i++ {
		err := v.ask(c.request(i))
		c.done(next, err)
		if err != nil || i%c.perConn == c.perConn-1 {
			v.leave()
		}
		if c.every == 0 {
			next = time.Now().Add(slowPause)
			continue
		}
		next = next.Add(c.every)
		late := time.Since(next)
		if deadline, ok := ctx.Deadline(); ok {
			late = min(late, deadline.Sub(next))
		}
		if missed := int(late / c.every); missed > 0 {
			c.miss(missed)
			next = next.Add(time.Duration(missed) * c.every)
		}
	}
}

// done counts a request that was to be made at the given time.
func (c *clients) done(intended time.Time, err error) {
	if err == nil {
		c.latency.Add(time.Since(intended))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Requests++
	if err != nil {
		c.Failed++
		c.Error = cmp.Or(c.Error, err.Error())
	}
}

func (c *clients) miss(requests int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Missed += requests
}

// A visit is a client's connection, if it has one.
type visit struct {
	*clients
	from net.Addr // nil for any
	conn net.Conn
	in   *bufio.Reader
}

func (v *visit) leave() {
	if v.conn != nil {
		v.conn.Close()
		v.conn = nil
	}
}

// ask makes a request, and takes the answer.
func (v *visit) ask(r request) error {
	deadline := time.Now().Add(v.patience)
	if v.conn == nil {
		if err := v.connect(deadline); err != nil {
			return err
		}
	}
	v.conn.SetDeadline(deadline)
	if _, err := io.WriteString(v.conn, r.head); err != nil {
		return err
	}
	for range r.pieces {
		if _, err := io.WriteString(v.conn, r.piece); err != nil {
			return err
		}
		time.Sleep(r.pause)
	}
	if v.Server == server.Net { // it echoes
		_, err := io.CopyN(io.Discard, v.in, int64(len(r.head)+r.pieces*len(r.piece)))
		return err
	}
	res, err := http.ReadResponse(v.in, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the status is %s", res.Status)
	}
	return r.take(res.Body)
}

func (v *visit) connect(deadline time.Time) error {
	d := net.Dialer{Deadline: deadline, LocalAddr: v.from}
	if v.receive > 0 {
		d.Control = func(_, _ string, c syscall.RawConn) error { return setReceiveBuffer(c, v.receive) }
	}
	conn, err := d.Dial("tcp", v.address)
	if err != nil {
		return err
	}
	if v.secure() {
		conn = tls.Client(conn, server.ClientTLS())
	}
	v.conn, v.in = conn, bufio.NewReader(conn)
	return nil
}

// take takes the answer.
func (r *request) take(body io.Reader) error {
	for got := 0; ; time.Sleep(r.pause) {
		n, err := io.CopyN(io.Discard, body, int64(cmp.Or(r.chunk, r.answer)))
		got += int(n)
		switch {
		case errors.Is(err, io.EOF) && got != r.answer:
			return fmt.Errorf("the answer has %d bytes; there should be %d", got, r.answer)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
