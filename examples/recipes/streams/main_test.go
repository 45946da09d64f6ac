package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idletest"
)

// TestHour has an upload of an hour at 50 kB/s, an event stream and requests of the API share one
// connection. Only requests that take longer than ten seconds fail.
func TestHour(t *testing.T) {
	t.Run("HTTP/1", func(t *testing.T) { hour(t, false) })
	t.Run("HTTP/2", func(t *testing.T) { hour(t, true) })
}

func hour(t *testing.T, http2 bool) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		defer pipes.Close()
		go func() {
			if err := serve(pipes); !errors.Is(err, net.ErrClosed) {
				t.Error("serve:", err)
			}
		}()
		dialed := 0
		transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			dialed++
			return pipes.DialContext(ctx)
		}}
		transport.Protocols.SetHTTP1(!http2)
		transport.Protocols.SetUnencryptedHTTP2(http2)
		defer transport.CloseIdleConnections()
		do := func(method, path string, body io.Reader) (text string, err error) {
			r, err := http.NewRequest(method, "http://any"+path, body)
			if err != nil {
				return "", err
			}
			res, err := transport.RoundTrip(r)
			if err != nil {
				return "", err
			}
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			return fmt.Sprint(res.StatusCode, " ", strings.TrimSpace(string(b))), err
		}
		if _, err := do("GET", "/api/time", nil); err != nil { // so that there is a connection to share
			t.Error(err)
		}

		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "GET", "http://any/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		streamed := make(chan string)
		go func() {
			b, _ := io.ReadAll(res.Body)
			res.Body.Close()
			streamed <- string(b)
		}()

		body, out := io.Pipe()
		uploaded := make(chan string)
		go func() {
			text, err := do("PUT", "/upload", body)
			if err != nil {
				t.Error("upload:", err)
			}
			uploaded <- text
		}()
		for second := range 3600 {
			if _, err := out.Write(make([]byte, 50_000)); err != nil {
				t.Fatal("upload:", err)
			}
			time.Sleep(time.Second)
			if second%600 != 0 {
				continue
			}
			if text, err := do("GET", "/api/time", nil); err != nil || !strings.HasPrefix(text, "200 ") {
				t.Errorf("%s, %v", text, err)
			}
			begun := time.Now()
			if text, err := do("GET", "/api/slowly", nil); err == nil && !strings.HasPrefix(text, "503 ") {
				t.Errorf("what takes too long is answered with %s", text)
			}
			if took := time.Since(begun).Round(time.Second); took != 10*time.Second {
				t.Errorf("what takes too long ends after %v", took)
			}
		}
		out.Close()
		if text := <-uploaded; text != "200 180000000 bytes" {
			t.Errorf("uploaded: %s", text)
		}
		leave()
		if text := <-streamed; strings.Count(text, "data: ") != 6 || strings.Count(text, ": \n\n") < 200 {
			t.Errorf("%d events, %d comments", strings.Count(text, "data: "), strings.Count(text, ": \n\n"))
		}
		if http2 && dialed != 1 {
			t.Errorf("%d connections", dialed)
		}
	})
}

// TestTrickle has an upload that brings too little.
func TestTrickle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := idletest.NewListener()
		defer pipes.Close()
		go serve(pipes)
		transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return pipes.DialContext(ctx)
		}}
		transport.Protocols.SetUnencryptedHTTP2(true)
		defer transport.CloseIdleConnections()
		body, out := io.Pipe()
		var trickle sync.WaitGroup
		trickle.Go(func() {
			for {
				if _, err := out.Write(make([]byte, 1000)); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		defer trickle.Wait() // until the client closes the body
		r, err := http.NewRequest("PUT", "http://any/upload", body)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if res, err := transport.RoundTrip(r); err == nil {
			res.Body.Close()
			t.Error("the upload is answered with ", res.Status)
		}
		if took := time.Since(begun); took < time.Minute || took > 2*time.Minute {
			t.Errorf("it ends after %v", took)
		}
	})
}
