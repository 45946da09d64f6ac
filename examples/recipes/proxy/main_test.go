package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idletest"
	"github.com/idlewheel/idlewheel/idle"
)

// TestBothSides has clients that send half a header and half a body, and a server that doesn't answer.
func TestBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		front, back := idletest.NewListener(), idletest.NewListener()
		go idlehttp.Serve(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if r.URL.Path == "/slow" {
				<-r.Context().Done()
			}
			io.WriteString(w, "hello")
		})}, back, idlehttp.Timeouts{BodyTimeout: time.Hour, BodyRate: idle.Rate{BytesPerSecond: idlehttp.Off}})
		go serve(front, &url.URL{Scheme: "http", Host: "back"}, func(ctx context.Context, _, _ string) (net.Conn, error) {
			return back.DialContext(ctx)
		})
		exchange := func(request, status, body string) (waited time.Duration) {
			t.Helper()
			begun := time.Now()
			conn, err := front.Dial()
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(conn, request)
			answer, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+status) || !strings.HasSuffix(string(answer), body) {
				t.Errorf("%q got %q, %v", request, answer, err)
			}
			return time.Since(begun).Round(time.Second)
		}
		const rest = " HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n"
		for range 3 { // also after the pooled connection to the server has been given up
			exchange("GET /"+rest, "200", "hello")
			time.Sleep(5 * time.Minute)
		}
		if waited := exchange("GET / HTTP/1.1\r\nHost: a", "408", ""); waited != 10*time.Second {
			t.Errorf("half a request is answered after %v", waited)
		}
		if waited := exchange("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf", "408", ""); waited > 10*time.Second {
			t.Errorf("half a body is answered after %v", waited)
		}
		if waited := exchange("GET /slow"+rest, "504", ""); waited != 2*time.Minute {
			t.Errorf("a request that the server doesn't answer is answered after %v", waited)
		}
		front.Close()
		back.Close()
		time.Sleep(time.Hour) // every connection ends by a limit
	})
}
