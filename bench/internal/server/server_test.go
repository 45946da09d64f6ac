package server

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// exchange makes a request over a new connection, and returns the connection.
func exchange(t *testing.T, kind, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(30 * time.Second))
	if kind == HTTPS {
		c = tls.Client(c, ClientTLS())
	}
	if kind == Net || kind == Gnet {
		io.WriteString(c, Greeting)
		b := make([]byte, len(Greeting))
		if _, err := io.ReadFull(c, b); err != nil || string(b) != Greeting {
			t.Errorf("%q comes back, %v", b, err)
		}
		return c
	}
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != Greeting {
		t.Errorf("the answer is %q, %v", b, err)
	}
	return c
}

// TestServers exchanges something with every variant, and waits to be cut off for
// silence. A bare server must not do that.
func TestServers(t *testing.T) {
	for _, kind := range Kinds() {
		for _, variant := range Variants(kind) {
			t.Run(kind+"/"+variant, func(t *testing.T) {
				t.Parallel()
				const limit = time.Second // a busy machine makes a handshake and a request in that
				s, err := New(Config{
					Kind: kind, Variant: variant, Own: limit,
					Policy: idle.Policy{IdleTimeout: limit}, Timeouts: httplimits.Timeouts{KeepAliveTimeout: limit},
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Start(); err != nil {
					t.Fatal(err)
				}
				c := exchange(t, kind, s.Address)
				if variant == Bare {
					c.SetReadDeadline(time.Now().Add(limit + limit/2))
				}
				_, err = c.Read(make([]byte, 1))
				timeout, _ := err.(net.Error)
				if waited := timeout != nil && timeout.Timeout(); err == nil || waited != (variant == Bare) {
					t.Errorf("after a silence: %v", err)
				}
				if (s.Stats != nil) != (variant == Ours) || s.Stats != nil && s.Stats().Tracked == 0 {
					t.Error("the statistics are wrong")
				}
				if err := s.Stop(); err != nil {
					t.Errorf("stopping: %v", err)
				}
				if err := s.Err(); err != nil {
					t.Errorf("it ended by %v", err)
				}
			})
		}
	}
}
