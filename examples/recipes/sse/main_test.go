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

// TestShutdown: a stream ends at once, and not only when it's forced to.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		ctx, stop := context.WithCancel(t.Context())
		served, streamed := make(chan error, 1), make(chan string, 1)
		go func() { served <- serve(ctx, pipes) }()
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return pipes.DialContext(ctx) }}
		defer transport.CloseIdleConnections()
		go func() {
			defer close(streamed)
			res, err := (&http.Client{Transport: transport}).Get("http://any/events")
			if err != nil {
				t.Error(err)
				return
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			streamed <- string(body)
		}()
		time.Sleep(90 * time.Second)
		begun := time.Now()
		stop()
		if got := <-streamed; !strings.Contains(got, "data: ") || !strings.Contains(got, "\n: \n") || !strings.Contains(got, "retry: ") {
			t.Errorf("the stream was %q", got)
		}
		if waited := time.Since(begun); waited > time.Second {
			t.Errorf("the stream went on for %v", waited)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		if waited := time.Since(begun); waited > 10*time.Second {
			t.Errorf("the shutdown took %v", waited)
		}
	})
}
