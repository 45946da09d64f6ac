package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/idletest"
	"github.com/idlewheel/idlewheel/examples/recipes/internal/try"
)

// start starts a server, and a proxy in front of it.
func start(t *testing.T, h http.HandlerFunc) (front *idletest.Listener) {
	front, back := idletest.NewListener(), idletest.NewListener()
	go idlehttp.Serve(&http.Server{Handler: h}, back, idlehttp.Timeouts{})
	target := &url.URL{Scheme: "http", Host: "back"}
	go serve(front, target, func(ctx context.Context, _, _ string) (net.Conn, error) { return back.DialContext(ctx) })
	t.Cleanup(func() {
		front.Close()
		back.Close()
		time.Sleep(time.Hour) // every connection ends by a limit
	})
	return front
}

func get(t *testing.T, l *idletest.Listener, path string) (status int, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return l.DialContext(ctx) },
	}}
	res, err := client.Get("http://any" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		front := start(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-r.Context().Done()
			}
			io.WriteString(w, "hello")
		})
		for range 3 { // also after the pooled connection to the server has been given up
			if status, body := get(t, front, "/"); status != 200 || body != "hello" {
				t.Errorf("%d %q", status, body)
			}
			time.Sleep(5 * time.Minute)
		}
		try.HalfARequest(t, front.Dial)
		begun := time.Now()
		if status, _ := get(t, front, "/slow"); status != http.StatusGatewayTimeout {
			t.Errorf("a request that the server doesn't answer got %d", status)
		}
		if waited := time.Since(begun).Round(time.Second); waited != 2*time.Minute {
			t.Errorf("it waited %v", waited)
		}
	})
}
