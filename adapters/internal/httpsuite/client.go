// Package httpsuite is the conformance suite of the HTTP adapters: tests of what every server with
// [httplimits.Timeouts] promises, which run against net/http and fasthttp. What isn't a test here are
// the servers, clients and checks that the adapters' own tests share.
package httpsuite

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A Client is an HTTP/1 client that tests drive by hand.
type Client struct {
	net.Conn
	T     testing.TB
	In    *bufio.Reader
	Begun time.Time // just before it connected
	site  *Site     // nil if it isn't known

	sent time.Time // when the latest Send began
}

// Get returns a request without a body.
func Get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: test\r\n\r\n" }

// Post returns the header of a request with a body of n bytes.
func Post(n int) string { return postTo("/", n) }

func postTo(path string, n int) string {
	return "POST " + path + " HTTP/1.1\r\nHost: test\r\nContent-Length: " + strconv.Itoa(n) + "\r\n\r\n"
}

// Connect connects to an address.
func Connect(t testing.TB, to net.Addr) *Client {
	t.Helper()
	begun := time.Now()
	nc, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, nc, begun)
}

func newClient(t testing.TB, nc net.Conn, begun time.Time) *Client {
	nc.SetDeadline(time.Now().Add(Patience))
	t.Cleanup(func() { nc.Close() })
	return &Client{Conn: nc, T: t, In: bufio.NewReader(nc), Begun: begun}
}

// DialBare connects to the site, without a TLS handshake.
func (s *Site) DialBare() *Client {
	s.T.Helper()
	var c *Client
	if s.Memory == nil {
		c = Connect(s.T, s.Addr())
	} else {
		begun := time.Now()
		nc, err := s.Memory.Dial()
		if err != nil {
			s.T.Fatal(err)
		}
		c = newClient(s.T, nc, begun)
	}
	c.site = s
	return c
}

// Dial connects to the site, with TLS if the site uses it, and offers protos by ALPN.
func (s *Site) Dial(protos ...string) *Client {
	s.T.Helper()
	c := s.DialBare()
	if s.Secure {
		c.Shake(protos...)
	}
	return c
}

// Shake makes the TLS handshake.
func (c *Client) Shake(protos ...string) *tls.Conn {
	c.T.Helper()
	_, config := Identity()
	config.NextProtos = protos
	secure := tls.Client(c.Conn, config)
	if err := secure.Handshake(); err != nil {
		if took := time.Since(c.Begun); took > 200*ms {
			c.T.Skipf("inconclusive: the machine let the handshake wait for %v", took)
		}
		c.T.Fatal(err)
	}
	c.Conn = secure
	c.In.Reset(secure)
	return secure
}

// Send sends text, and returns the time before that.
func (c *Client) Send(text string) time.Time {
	c.T.Helper()
	before := time.Now() // c.sent may be another call's by the time this one returns
	c.sent = before
	if _, err := io.WriteString(c, text); err != nil {
		c.T.Fatalf("sending %.40q: %v", text, err)
	}
	return before
}

// Trickle sends text byte by byte, with a pause before each, until sending fails or stop is
// called. stop returns how many bytes were sent.
func (c *Client) Trickle(text string, pause time.Duration) (stop func() int) {
	quit, sent := make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		defer func() { sent <- n }()
		for ; n < len(text); n++ {
			select {
			case <-quit:
				return
			case <-time.After(pause):
			}
			if _, err := io.WriteString(c, text[n:n+1]); err != nil {
				return
			}
		}
	}()
	return sync.OnceValue(func() int { close(quit); return <-sent })
}

// Response reads the header of a response.
func (c *Client) Response() *http.Response {
	c.T.Helper()
	response, err := http.ReadResponse(c.In, nil)
	if err != nil {
		c.T.Fatalf("got %v, want a response; the request was sent %v ago", err, time.Since(c.sent))
	}
	return response
}

// Want reads a response with the given status and returns its body. If the connection stays
// open, Want waits until the server waits for the next request, so that one isn't pipelined.
func (c *Client) Want(status int) string {
	c.T.Helper()
	body, _ := c.want(status)
	return body
}

func (c *Client) want(status int) (body string, at time.Time) {
	c.T.Helper()
	response := c.Response()
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	at = time.Now()
	if err != nil {
		c.T.Errorf("the response's body fails: %v", err)
	}
	if response.StatusCode != status {
		c.T.Errorf("got status %d, want %d", response.StatusCode, status)
	}
	if refused := status == http.StatusRequestTimeout || status == http.StatusServiceUnavailable; refused && !response.Close {
		c.T.Errorf("a %d without Connection: close", status)
	}
	if !response.Close && c.site != nil {
		c.site.answers.Add(1)
		Eventually(c.T, "the connection is idle", func() bool { return c.site.idles.Load() >= c.site.answers.Load() })
	}
	return string(b), at
}

// Get makes a request, which has to succeed, and returns the response's body.
func (c *Client) Get(path string) string {
	c.T.Helper()
	c.Send(Get(path))
	return c.Want(http.StatusOK)
}

// Refused reads the adapter's answer to a request that timed out, and checks that it has no body,
// because the request may be a HEAD, and that the connection ends. It returns when the answer
// came.
func (c *Client) Refused(status int) time.Time {
	c.T.Helper()
	body, at := c.want(status)
	if body != "" {
		c.T.Errorf("the answer's body is %q", body)
	}
	c.WantClosed()
	return at
}

// WantClosed waits for the end of the connection, and returns when it came. Nothing may arrive
// before it.
func (c *Client) WantClosed() time.Time {
	c.T.Helper()
	n, err := io.Copy(io.Discard, c.In)
	at := time.Now()
	if n > 0 || !IsEnd(err) {
		c.T.Errorf("got %d bytes and %v, want the end of the connection", n, err)
	}
	return at
}

// Drain reads until the end of the connection, and returns when it came.
func (c *Client) Drain() time.Time {
	c.T.Helper()
	if _, err := io.Copy(io.Discard, c.In); !IsEnd(err) {
		c.T.Errorf("got %v, want the end of the connection", err)
	}
	return time.Now()
}

// IsEnd reports whether err, or nil, is what a client gets when the server has closed the
// connection.
func IsEnd(err error) bool {
	return err == nil || err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Line reads a line and checks that it's the one wanted.
func (c *Client) Line(want string) {
	c.T.Helper()
	if got, err := c.In.ReadString('\n'); got != want+"\n" || err != nil {
		c.T.Fatalf("got %q and %v, want %q", got, err, want)
	}
}

// Narrow limits the receive buffer of a client's socket to about n bytes.
func (c *Client) Narrow(n int) {
	c.T.Helper()
	nc := c.Conn
	if secure, ok := nc.(*tls.Conn); ok {
		nc = secure.NetConn()
	}
	if tcp, ok := nc.(*net.TCPConn); ok {
		if err := tcp.SetReadBuffer(n); err != nil {
			c.T.Fatal(err)
		}
	}
}

// Large is a response that doesn't fit into the kernel's buffers of a loopback connection.
var Large = func() []byte {
	b := make([]byte, 16<<20)
	for i := range b {
		b[i] = byte(i>>8 ^ i>>16)
	}
	return b
}()
