package main

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idletest"
)

// TestServers: each server answers, and waits for half a request as long as HeaderTimeout says.
func TestServers(t *testing.T) {
	for _, name := range []string{"gin", "chi", "echo"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pipes := idletest.NewListener()
				defer pipes.Close()
				go servers()[name](pipes)
				begun := time.Now()
				exchange(t, pipes.Dial)
				if waited := time.Since(begun).Round(time.Second); waited != 10*time.Second {
					t.Errorf("the server waited %v for the request", waited)
				}
			})
		})
	}
}

// exchange sends a request and then half of one, and checks the answers.
func exchange(t *testing.T, dial func() (net.Conn, error)) {
	t.Helper()
	for _, test := range []struct{ request, status, body string }{
		{"GET /hello/gopher HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n", "200", "hello gopher"},
		{"GET /hello/gopher HTTP/1.1\r\nHost: a", "408", ""},
	} {
		conn, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, test.request)
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+test.status) || !strings.HasSuffix(string(answer), test.body) {
			t.Errorf("the server answered %q with %q, %v", test.request, answer, err)
		}
		conn.Close()
	}
}
