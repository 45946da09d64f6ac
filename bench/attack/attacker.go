package main

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"time"
)

// An attacker has a connection, and holds it for as long as it can.
type attacker struct {
	kind   kind
	secure bool // the server speaks TLS
	piece  int  // of a body
	limits

	ctx       context.Context // ends when the attack is over
	wire      *net.TCPConn
	conn      net.Conn // wire, or TLS over it
	connected time.Time

	mu       sync.Mutex
	err      error // why there is no connection
	dues     []due // what the limit was, and since when
	cutAt    time.Time
	gone     chan struct{} // closed when it is cut
	finished bool          // what happens from here on does not count
}

// A due is the earliest moment at which the attacker may be cut, as the limits
// are and going by what it has done by the time since.
type due struct{ since, at time.Time }

func newAttacker(ctx context.Context, k kind, cfg config) *attacker {
	return &attacker{kind: k, secure: cfg.secure(), piece: cfg.piece(), limits: cfg.limits, ctx: ctx, gone: make(chan struct{})}
}

// connect connects to the server, with a small receive buffer if the kind of
// attack wants that. dialed is called with the attacker's port.
func (a *attacker) connect(address string, dialed func(port int)) error {
	begun := time.Now() // the server may accept before we are told
	d := net.Dialer{Timeout: dialTimeout}
	if a.kind.narrow {
		d.Control = narrow
	}
	nc, err := d.DialContext(a.ctx, "tcp", address)
	if err != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.err = err
		return err
	}
	a.wire, a.conn, a.connected = nc.(*net.TCPConn), nc, begun
	dialed(nc.LocalAddr().(*net.TCPAddr).Port)
	a.limit(begun, begun.Add(a.header))
	if a.secure && !a.kind.raw {
		a.conn = secure(nc, a.kind.http2)
	}
	return nil
}

const dialTimeout = 10 * time.Second

// attack runs the attack until the attacker is cut or the attack is over.
func (a *attacker) attack() {
	if shaken, ok := a.conn.(*tls.Conn); ok {
		if err := shaken.HandshakeContext(a.ctx); err != nil {
			a.cut(time.Now())
			return
		}
	}
	if !a.kind.reads {
		go func() {
			io.Copy(io.Discard, a.conn) // there may be an answer before the end
			a.cut(time.Now())
		}()
	}
	a.kind.attack(a)
	a.rest(time.Hour)
}

// cut notes that the connection has ended, as either side says.
func (a *attacker) cut(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.finished:
	case a.cutAt.IsZero():
		a.cutAt = at
		close(a.gone)
	case at.Before(a.cutAt):
		a.cutAt = at
	}
}

// finish ends what counts.
func (a *attacker) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.finished = true
}

// limit notes that since some moment the attacker may be cut at another.
func (a *attacker) limit(since, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dues = append(a.dues, due{since, at})
}

// settling is how long before a cut it may have been decided on. What the
// attacker has done in between has come too late to change it.
const settling = 200 * time.Millisecond

// outcome returns whether the attacker has been cut, and how long after its limit,
// which is negative if that was before. If it has not been, it is how long after
// its limit it still lives at the given end.
func (a *attacker) outcome(end time.Time) (cut bool, past time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	cut, at := !a.cutAt.IsZero(), end
	if cut {
		at = a.cutAt
	}
	return cut, at.Sub(earliest(a.dues, at))
}

// earliest returns the earliest of the moments that were due at the given time,
// or a settling before.
func earliest(dues []due, at time.Time) time.Time {
	var first time.Time
	for i, d := range dues {
		replaced := i+1 < len(dues) && dues[i+1].since.Before(at.Add(-settling))
		if replaced || d.since.After(at) {
			continue
		}
		if first.IsZero() || d.at.Before(first) {
			first = d.at
		}
	}
	return first
}

// limitFirst notes that since the given moment, at which the first byte of the
// first header is sent, its end is waited for. Behind TLS it may be a part of the
// handshake, as net/http does not tell when that is over.
func (a *attacker) limitFirst(since time.Time) {
	if !a.secure {
		a.limit(since, since.Add(a.header))
	}
}

// rest waits, and reports whether the attack goes on.
func (a *attacker) rest(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-a.gone:
	case <-a.ctx.Done():
	}
	return false
}

// restUntil waits until the given time, likewise.
func (a *attacker) restUntil(t time.Time) bool { return a.rest(time.Until(t)) }

// send writes, and returns when it began to: the server knows of it later.
func (a *attacker) send(text string) time.Time {
	begun := time.Now()
	io.WriteString(a.conn, text) // an error is an end, of which reading tells
	return begun
}
