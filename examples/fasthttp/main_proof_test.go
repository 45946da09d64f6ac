//go:build proof

package main

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
)

// start serves until ctx is done, and returns what connects to the server and sends text.
func start(t *testing.T, ctx context.Context, limits idlefasthttp.Timeouts) (dial func(text string) net.Conn, served chan error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served = make(chan error, 1)
	go func() { served <- serve(ctx, ln, limits) }()
	return func(text string) net.Conn {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, text)
		return conn
	}, served
}

const header, body = "POST / HTTP/1.1\r\nHost: any\r\nContent-Length: 8\r\n\r\n", "8 bytes."

// TestAttacks: no client holds the server, and none is cut before its limit.
func TestAttacks(t *testing.T) {
	const limit = 2 * time.Second
	dial, _ := start(t, t.Context(), idlefasthttp.Timeouts{HandshakeTimeout: limit, HeaderTimeout: limit, BodyTimeout: limit, KeepAliveTimeout: limit})
	t.Run("all", func(t *testing.T) { // returns when all have ended
		for what, attack := range map[string]struct{ send, want string }{
			"says nothing":         {"", ""},
			"sends half a header":  {header[:20], "HTTP/1.1 408 "},
			"sends half a body":    {header + "abc", "HTTP/1.1 408 "},
			"keeps the connection": {header + body, "HTTP/1.1 200 "},
		} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				begun := time.Now()
				conn := dial(attack.send)
				defer conn.Close()
				answer, err := io.ReadAll(conn)
				if err != nil || !strings.HasPrefix(string(answer), attack.want) || (attack.want == "") != (len(answer) == 0) {
					t.Errorf("it's answered with %q, %v", answer, err)
				}
				if lasted := time.Since(begun); lasted < limit || lasted > 10*limit {
					t.Errorf("it's closed after %v", lasted)
				}
			})
		}
	})
}

// TestShutdown: fasthttp's Shutdown lets a request finish, and closes idle connections.
func TestShutdown(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	dial, served := start(t, ctx, idlefasthttp.Timeouts{})
	kept, upload := dial(header+body), dial(header)
	time.Sleep(200 * time.Millisecond) // until the requests have begun
	stop()
	time.Sleep(200 * time.Millisecond)
	io.WriteString(upload, body)
	for _, conn := range []net.Conn{kept, upload} {
		if answer, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(answer), " 8 bytes\n") {
			t.Errorf("the request is answered with %q, %v", answer, err)
		}
	}
	if err := <-served; err != nil {
		t.Error("serve:", err)
	}
}
