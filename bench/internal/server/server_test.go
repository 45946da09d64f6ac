package server

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/idle"
)

// exchange makes a request over a connection, and returns what to read on.
func exchange(kind string, c net.Conn) (net.Conn, error) {
	c.SetDeadline(time.Now().Add(30 * time.Second))
	if kind == HTTPS {
		c = tls.Client(c, ClientTLS())
	}
	if kind == Net || kind == Gnet {
		io.WriteString(c, Greeting)
		b := make([]byte, len(Greeting))
		if _, err := io.ReadFull(c, b); err != nil || string(b) != Greeting {
			return c, fmt.Errorf("%q comes back, %v", b, err)
		}
		return c, nil
	}
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return c, err
	}
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != Greeting {
		return c, fmt.Errorf("the answer is %q, %v", b, err)
	}
	return c, nil
}

// TestServers exchanges something with every variant, and waits to be cut off for
// silence. A bare server must not do that.
func TestServers(t *testing.T) {
	for _, kind := range Kinds() {
		for _, variant := range Variants(kind) {
			t.Run(kind+"/"+variant, func(t *testing.T) {
				t.Parallel()
				const limit = time.Second
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
				begun := time.Now()
				plain, err := net.Dial("tcp", s.Address)
				if err != nil {
					t.Fatal(err)
				}
				defer plain.Close()
				c, err := exchange(kind, plain)
				if took := time.Since(begun); err != nil && variant != Bare && took > limit/2 {
					t.Skipf("inconclusive: the machine needed %v for a request: %v", took, err)
				}
				if err != nil {
					t.Fatal(err)
				}
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
