package attack

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/idlewheel/idlewheel/bench/internal/server"
)

// An attacker has a connection, and holds it for as long as it can.
type attacker struct {
	kind
	Config

	ctx       context.Context // ends when the attack is over
	wire      *net.TCPConn
	conn      net.Conn // wire, or TLS over it
	connected time.Time

	mu       sync.Mutex
	dues     []due // in the order of since
	cutAt    time.Time
	gone     chan struct{} // closed when the attacker is cut
	finished bool          // what happens from here on does not count
}

// A due says that, by what the attacker has done by the time since, it may be cut
// at the time at, and no earlier.
type due struct{ since, at time.Time }

func newAttacker(ctx context.Context, k kind, cfg Config) *attacker {
	return &attacker{kind: k, Config: cfg, ctx: ctx, gone: make(chan struct{})}
}

const dialTimeout = 10 * time.Second

// connect connects to the server.
func (a *attacker) connect(address string) error {
	begun := time.Now() // the server may accept before we are told
	d := net.Dialer{Timeout: dialTimeout}
	if a.narrow {
		d.Control = func(_, _ string, c syscall.RawConn) error { return setReceiveBuffer(c, 1) } // the least that there is
	}
	nc, err := d.DialContext(a.ctx, "tcp", address)
	if err != nil {
		return err
	}
	a.wire, a.conn, a.connected = nc.(*net.TCPConn), nc, begun
	a.limit(begun, begun.Add(a.Header))
	if a.secure() && !a.raw {
		a.conn = tls.Client(nc, server.ClientTLS(a.protocols...))
	}
	return nil
}

// run attacks until the attacker is cut or the attack is over. Nothing of it stays in
// the kernel.
func (a *attacker) run() {
	defer a.wire.Close()
	a.wire.SetLinger(0)
	if c, ok := a.conn.(*tls.Conn); ok {
		if err := c.HandshakeContext(a.ctx); err != nil {
			a.cut(time.Now())
			return
		}
	}
	if !a.reads {
		go func() {
			io.Copy(io.Discard, a.conn) // there may be an answer before the end
			a.cut(time.Now())
		}()
	}
	a.attack(a)
	a.rest(time.Hour)
}

// cut notes that the connection has ended.
func (a *attacker) cut(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.finished && a.cutAt.IsZero() {
		a.cutAt = at
		close(a.gone)
	}
}

// finish ends what counts.
func (a *attacker) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.finished = true
}

// limit notes a due.
func (a *attacker) limit(since, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dues = append(a.dues, due{since, at})
}

// limitHeader notes that at the given time the first header was begun. With TLS
// that may count as a part of the handshake, as net/http does not tell when the
// handshake is over.
func (a *attacker) limitHeader(since time.Time) {
	if !a.secure() {
		a.limit(since, since.Add(a.Header))
	}
}

// settling is how long before a cut it may have been decided on. What the
// attacker has done in between has come too late to change it.
const settling = 200 * time.Millisecond

// outcome returns whether the attacker has been cut, and how long after its limit
// that was. It is negative if it was before. For an attacker that has not been
// cut, it is how long after its limit it still lived at the given end.
func (a *attacker) outcome(end time.Time) (cut bool, past time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	cut, at := !a.cutAt.IsZero(), end
	if cut {
		at = a.cutAt
	}
	return cut, at.Sub(earliest(a.dues, at))
}

// earliest returns the earliest moment that was due at the given time, or less
// than settling before.
func earliest(dues []due, at time.Time) (earliest time.Time) {
	for i, d := range dues {
		replaced := i+1 < len(dues) && dues[i+1].since.Before(at.Add(-settling))
		if !replaced && !d.since.After(at) && (earliest.IsZero() || d.at.Before(earliest)) {
			earliest = d.at
		}
	}
	return earliest
}

// rest waits, and reports whether the attack goes on.
func (a *attacker) rest(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-a.gone:
	case <-a.ctx.Done():
	}
	return false
}

// nag sends something, may be cut a limit later, and sends more again and again.
func (a *attacker) nag(text string, limit, every time.Duration, more string) {
	t := a.send(text)
	a.limit(t, t.Add(limit))
	for a.rest(every) {
		a.send(more)
	}
}

// send writes, and returns when it began to: the server knows of it later.
func (a *attacker) send(text string) time.Time {
	begun := time.Now()
	io.WriteString(a.conn, text) // an error means that the connection has ended, which reading finds
	return begun
}
