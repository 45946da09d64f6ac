package httpsuite

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// A hijacked is a connection that a handler has hijacked.
type hijacked struct {
	net.Conn
	in    *bufio.Reader
	watch func(p idle.Policy, on httplimits.Callbacks) error
}

// hijack returns a handler that, at the path /hijack, hijacks the connection, writes "ready",
// calls use, and closes the connection. The channel gets the results of use.
func hijack(use func(hijacked) error) (func(request), chan error) {
	ended := make(chan error, 10)
	return func(r request) {
		io.Copy(io.Discard, r.Body())
		if r.Path() != "/hijack" {
			return
		}
		r.Hijack(func(c net.Conn, in *bufio.Reader) {
			defer c.Close()
			io.WriteString(c, "ready\n")
			ended <- use(hijacked{c, in, func(p idle.Policy, on httplimits.Callbacks) error { return r.Watch(c, p, on) }})
		})
	}, ended
}

// reach returns the connection in c that has the methods of T, as applications find it to call Beat or Use.
func reach[T any](c net.Conn) (found T) {
	for {
		if found, ok := c.(T); ok {
			return found
		}
		switch at := c.(type) {
		case interface{ NetConn() net.Conn }: // TLS
			c = at.NetConn()
		case interface{ UnsafeConn() net.Conn }: // fasthttp
			c = at.UnsafeConn()
		default:
			panic(fmt.Sprintf("a %T isn't a %T", c, &found))
		}
	}
}

// echoLines sends back each line that it reads, and returns the error that ended this.
func echoLines(h hijacked) error {
	for {
		line, err := h.in.ReadString('\n')
		if err != nil {
			return err
		}
		if _, err := io.WriteString(h, line); err != nil {
			return err
		}
	}
}

// watched is a use of hijack that applies p and reads until the end.
func watched(t *testing.T, p idle.Policy, on func(c net.Conn) httplimits.Callbacks) func(hijacked) error {
	return func(h hijacked) error {
		NoError(t, h.watch(p, on(h.Conn)))
		_, err := io.Copy(io.Discard, h.in)
		return err
	}
}

// upgrade makes the server hijack the connection.
func (c *Client) upgrade() {
	c.T.Helper()
	c.Send(Upgrade)
	c.Line("ready")
}

var ofHijacking = each("HijackedIsHandedOver", wraps, map[string]string{"first": "", "second": Get("/"), "after a body": Post(5) + "hello"}, handedOver)

// handedOver tests that a hijacked connection has no limits, whatever was requested on it before.
func handedOver(t *testing.T, u under, _, before string) {
	rate := idle.Rate{BytesPerSecond: 1 << 20, Grace: limit}
	to := All(limit)
	to.HandshakeTimeout, to.HandlerTimeout, to.BodyRate, to.WriteRate = 2*limit, limit, rate, rate
	h, ended := hijack(echoLines)
	s := u.start(t, to, h)
	c := s.Dial()
	if before != "" {
		c.Send(before)
		c.Want(http.StatusOK)
	}
	c.upgrade()
	for range 2 {
		time.Sleep(3 * limit)
		c.Send("hello\n")
		c.Line("hello")
	}
	c.Close()
	if err := Receive(t, ended); !IsEnd(err) {
		t.Errorf("the hijacked connection ended with %v", err)
	}
	s.WantNone()
}
