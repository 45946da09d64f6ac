package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http2"
)

// A peer is the connection of a case.
type peer struct {
	*target
	giveUp time.Duration
	ctx    context.Context
	wire   *net.TCPConn
	conn   net.Conn // wire, or TLS over it
	in     *bufio.Reader
	h2     *http2.Framer // of cases of HTTP/2

	writing sync.Mutex    // of frames
	settled chan struct{} // closed when the SETTINGS of the server have come
	refused string        // why the server has ended the connection before the case began

	mu    sync.Mutex // guards what follows
	began time.Time  // when the client began to be slow
	by    string     // how the server has ended it
	at    time.Time
	gone  chan struct{} // closed then
}

// pause is between two bytes of a client that trickles.
const pause = time.Second

// dial connects, shakes hands if the case is about what comes after, and starts to read if
// the case doesn't.
func dial(ctx context.Context, t *target, giveUp time.Duration, c slowCase) (*peer, error) {
	p := &peer{target: t, giveUp: giveUp, ctx: ctx, gone: make(chan struct{}), settled: make(chan struct{})}
	p.slow() // the server may accept before we know
	nc, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, err
	}
	p.wire, p.conn = nc.(*net.TCPConn), nc
	if c.small {
		p.wire.SetReadBuffer(1) // the kernel takes the least that it has
	}
	if t.scheme == "https" && c.protocol() != "tcp" && !c.raw {
		if err := p.shake(c.protocol()); err != nil {
			nc.Close()
			return nil, err
		}
	}
	p.in = bufio.NewReader(p.conn)
	switch {
	case c.protocol() == "h2":
		p.h2 = http2.NewFramer(p.conn, p.in)
		p.h2.SetMaxReadFrameSize(1 << 20)
		p.h2.AllowIllegalWrites = true
		go p.readFrames()
	case !c.reads:
		go p.readAll()
	}
	return p, nil
}

// slow notes that the client is slow from now on. A server can't have begun to wait before.
func (p *peer) slow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = time.Now()
}

func (p *peer) since() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.began
}

// end notes how the server has ended the case, if it has not been noted.
func (p *peer) end(by string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == "" {
		p.by, p.at = by, time.Now()
		close(p.gone)
	}
}

// ended returns how the server has ended the case, and how long after the client began to
// be slow. It is "" if it has not.
func (p *peer) ended() (by string, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == "" {
		return "", 0
	}
	return p.by, p.at.Sub(p.began)
}

// close ends the connection and leaves nothing in the kernel.
func (p *peer) close() {
	p.wire.SetLinger(0)
	p.wire.Close()
}

// endOf says how a connection has ended.
func endOf(err error) string {
	var alert tls.AlertError
	switch {
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "RST"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "FIN"
	case errors.As(err, &alert):
		return "alert"
	}
	return "error"
}

// readAll reads until the connection has ended. What has come since the client became slow
// may be the server's last word, such as 408.
func (p *peer) readAll() {
	b := make([]byte, 16<<10)
	status := ""
	var since time.Time
	for {
		n, err := p.in.Read(b)
		if began := p.since(); began != since { // what came before was an answer to what the client did before
			since, status = began, ""
		}
		line, _, _ := strings.Cut(string(b[:n]), "\r\n")
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(line, "HTTP/") && fields[1] != "100" {
			status = fields[1] + " "
		}
		if err != nil {
			p.end(status + endOf(err))
			return
		}
	}
}

// rest waits, and reports whether the server has not ended the case.
func (p *peer) rest(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-p.gone:
	case <-p.ctx.Done():
	}
	return false
}

// send writes. If that fails the connection has ended, which reading finds out.
func (p *peer) send(text string) { io.WriteString(p.conn, text) }

// trickle writes text byte by byte, one in each pause, and then repeats more.
func (p *peer) trickle(text, more string) {
	for i := range text {
		p.send(text[i : i+1])
		if !p.rest(pause) {
			return
		}
	}
	p.again(more)
}

// again writes text after each pause.
func (p *peer) again(text string) {
	for p.rest(pause) {
		p.send(text)
	}
}

// sip reads up to n bytes after each pause, or nothing, until the server has ended the
// connection. The kernel reports that even if nobody reads.
func (p *peer) sip(n int) {
	b := make([]byte, n)
	for p.rest(pause) {
		if by := isDown(p.wire); by != "" {
			p.end(by)
			return
		}
		if n == 0 {
			continue
		}
		p.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := p.in.Read(b); err != nil && !isTimeout(err) {
			p.end(endOf(err))
			return
		}
	}
	p.drain()
}

// drain reads what the server has sent, to find out whether it has closed the connection: its
// FIN waits behind data that nobody has read. When it was closed isn't known.
func (p *peer) drain() {
	begun := time.Now()
	for b := make([]byte, 64<<10); time.Since(begun) < drainTime; {
		p.conn.SetReadDeadline(time.Now().Add(drainTime / 4))
		if _, err := p.in.Read(b); isTimeout(err) {
			return
		} else if err != nil {
			p.end(closedUnseen)
			return
		}
	}
}

const drainTime = 12 * time.Second

// closedUnseen is how a connection has ended of which the client can only say so afterwards.
const closedUnseen = "FIN behind unread data"

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
