//go:build proof

package server

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/idlewheel/idlewheel/adapters/httplimits"
	"github.com/idlewheel/idlewheel/bench/internal/frames"
	"github.com/idlewheel/idlewheel/idle"
)

// exchange makes a request over a connection, and returns what to read on.
func exchange(kind string, c net.Conn) (net.Conn, error) {
	c.SetDeadline(time.Now().Add(30 * time.Second))
	switch kind {
	case HTTPS:
		c = tls.Client(c, ClientTLS())
	case HTTP2:
		c = tls.Client(c, ClientTLS("h2"))
		return c, exchange2(c, frames.New(frames.Headers, frames.EndHeaders|frames.EndStream, 1, frames.Get("/")), Greeting)
	case GRPC:
		body, err := proto.Marshal(wrapperspb.Bytes([]byte(Greeting)))
		if err != nil {
			return c, err
		}
		message := frames.Message(body)
		return c, exchange2(c, frames.New(frames.Headers, frames.EndHeaders, 1, frames.Call(EchoMethod))+
			frames.New(frames.Data, frames.EndStream, 1, message), message)
	case WebSocket:
		return c, exchangeWebSocket(c)
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

// exchange2 makes a request over HTTP/2.
func exchange2(c net.Conn, request, want string) error {
	if _, err := io.WriteString(c, frames.Hello+request); err != nil {
		return err
	}
	body := ""
	for {
		f, err := frames.Read(c)
		if err != nil {
			return err
		}
		if f.Kind == frames.Data {
			body += string(f.Payload)
		}
		if f.Stream == 1 && f.Flags&frames.EndStream != 0 {
			break
		}
	}
	if body != want {
		return fmt.Errorf("the answer is %q", body)
	}
	return nil
}

// exchangeWebSocket upgrades a connection, and has a message echoed.
func exchangeWebSocket(c net.Conn) error {
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n")
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		return errors.New(res.Status)
	}
	io.WriteString(c, "\x82\x8c\x00\x00\x00\x00"+Greeting)
	b := make([]byte, 2+len(Greeting))
	if _, err := io.ReadFull(in, b); err != nil || string(b) != "\x82\x0c"+Greeting {
		return fmt.Errorf("%q comes back, %v", b, err)
	}
	return nil
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
				_, err = io.Copy(io.Discard, c) // a GOAWAY, for one
				timeout, _ := err.(net.Error)
				if waited := timeout != nil && timeout.Timeout(); waited != (variant == Bare) {
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
