package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idletest"
)

// TestShutdown: streams and polls end at once, and not only when they're forced to.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- serve(ctx, pipes) }()
		transport := &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return pipes.DialContext(ctx) },
		}
		defer transport.CloseIdleConnections()
		get := func(path string) <-chan string {
			got := make(chan string, 1)
			go func() {
				res, err := (&http.Client{Transport: transport}).Get("http://any" + path)
				if err != nil {
					got <- err.Error()
					return
				}
				defer res.Body.Close()
				body, err := io.ReadAll(res.Body)
				if err != nil {
					t.Error(path, err)
				}
				got <- res.Status + "\n" + string(body)
			}()
			return got
		}
		events := get("/events")
		time.Sleep(90 * time.Second)
		poll := get("/poll")
		time.Sleep(time.Second)
		begun := time.Now()
		stop()
		if got := <-events; !strings.HasPrefix(got, "200 OK\n") || !strings.Contains(got, "data: ") ||
			!strings.Contains(got, "\n: \n") || !strings.Contains(got, "retry: ") {
			t.Errorf("the stream was %q", got)
		}
		if got := <-poll; got != "204 No Content\n" {
			t.Errorf("the poll got %q", got)
		}
		if waited := time.Since(begun); waited > time.Second {
			t.Errorf("they waited %v", waited)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		if waited := time.Since(begun); waited > 10*time.Second {
			t.Errorf("the shutdown took %v", waited)
		}
	})
}
