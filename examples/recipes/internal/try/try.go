// Package try tests the HTTP servers of the recipes.
package try

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idletest"
)

// InVirtualTime tests that a server answers, and that it doesn't wait for a slow client.
func InVirtualTime(t *testing.T, serve func(net.Listener) error) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		defer pipes.Close()
		go func() {
			if err := serve(pipes); !errors.Is(err, net.ErrClosed) {
				t.Error("serve:", err)
			}
		}()
		Hello(t, pipes.Dial)
		begun := time.Now()
		HalfARequest(t, pipes.Dial)
		if waited := time.Since(begun).Round(time.Second); waited != 10*time.Second {
			t.Errorf("the server waited %v for the request", waited)
		}
	})
}

// Hello requests /hello/gopher.
func Hello(t *testing.T, dial func() (net.Conn, error)) {
	t.Helper()
	res := exchange(t, dial, "GET /hello/gopher HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(res, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(res, "hello gopher") {
		t.Errorf("the server answered %q", res)
	}
}

// HalfARequest sends half a request, and nothing more.
func HalfARequest(t *testing.T, dial func() (net.Conn, error)) {
	t.Helper()
	if res := exchange(t, dial, "GET /hello/gopher HTTP/1.1\r\nHost: a"); !strings.HasPrefix(res, "HTTP/1.1 408 "+http.StatusText(http.StatusRequestTimeout)) {
		t.Errorf("the server answered half a request with %q", res)
	}
}

func exchange(t *testing.T, dial func() (net.Conn, error), request string) (response string) {
	t.Helper()
	conn, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
