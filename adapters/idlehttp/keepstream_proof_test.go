//go:build proof

package idlehttp

import (
	"bufio"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// events is a handler that begins an event stream, and says nothing until its request ends.
// Then it sends the cause.
func events(ended chan<- error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			ended <- r.Context().Err()
		case <-time.After(httpsuite.Patience):
			ended <- errors.New("the handler has waited for too long")
		}
	}
}

// byProtocol runs a test with HTTP/1 and HTTP/2, with and without TLS.
func byProtocol(t *testing.T, test func(t *testing.T, secure, http2 bool)) {
	for _, http2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP1", true: "HTTP2"}[http2], func(t *testing.T) {
			httpsuite.Both(t, func(t *testing.T, secure bool) { test(t, secure, http2) })
		})
	}
}

// TestKeepStreamReaches checks that comments reach clients over real sockets, that those
// who read are not ended by short limits, and that the handler learns when they leave.
func TestKeepStreamReaches(t *testing.T) {
	byProtocol(t, func(t *testing.T, secure, http2 bool) {
		ended := make(chan error, 1)
		limits := Timeouts{WriteTimeout: 2 * time.Second, WriteRate: idle.Rate{BytesPerSecond: 1000, Grace: 2 * time.Second}, StreamTimeout: 2 * time.Second}
		s := start2(t, secure, limits, KeepStream(events(ended), Comments{Interval: 20 * ms, Text: ": \n\n"}).ServeHTTP)
		tr := s.transport(http2)
		url := map[bool]string{false: "http", true: "https"}[secure] + "://" + s.Addr().String()
		response, err := (&http.Client{Transport: tr}).Get(url)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(response.Body)
		for range 50 {
			if !lines.Scan() || lines.Text() != ": " || !lines.Scan() || lines.Text() != "" {
				t.Fatalf("got %q, %v", lines.Text(), lines.Err())
			}
		}
		response.Body.Close()
		if err := httpsuite.Receive(t, ended); err == nil || err.Error() != "context canceled" {
			t.Error(err)
		}
		s.WantNone()
	})
}
