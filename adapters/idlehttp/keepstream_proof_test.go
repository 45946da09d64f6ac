//go:build proof

package idlehttp

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// subscribe serves an event stream that says nothing but comments until its request ends, and reads it. The channel
// gets the cause of the end, and nc is the client's connection.
func subscribe(t *testing.T, secure, http2 bool, limits Timeouts, interval time.Duration) (s *site, response *http.Response, nc net.Conn, ended chan error) {
	t.Helper()
	ended = make(chan error, 1)
	events := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			ended <- r.Context().Err()
		case <-time.After(httpsuite.Patience):
			ended <- errors.New("the handler has waited for too long")
		}
	}
	s = start2(t, secure, limits, KeepStream(http.HandlerFunc(events), Comments{Interval: interval, Text: ": \n\n"}).ServeHTTP)
	tr := s.transport(http2)
	tr.DialContext = func(ctx context.Context, network, address string) (_ net.Conn, err error) {
		nc, err = new(net.Dialer).DialContext(ctx, network, address)
		return nc, err
	}
	response, err := (&http.Client{Transport: tr}).Get(map[bool]string{false: "http", true: "https"}[secure] + "://" + s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return s, response, nc, ended
}

// TestKeepStreamReaches checks that comments reach clients over real sockets, that those
// who read are not ended by short limits, and that the handler learns when they leave.
func TestKeepStreamReaches(t *testing.T) {
	eachProtocol(t, func(t *testing.T, http2, secure bool) {
		limits := Timeouts{WriteTimeout: 2 * time.Second, WriteRate: idle.Rate{BytesPerSecond: 1000, Grace: 2 * time.Second}, StreamTimeout: 2 * time.Second}
		s, response, _, ended := subscribe(t, secure, http2, limits, 20*ms)
		lines := bufio.NewScanner(response.Body)
		for range 50 {
			if !lines.Scan() || lines.Text() != ": " || !lines.Scan() || lines.Text() != "" {
				t.Fatalf("got %q, %v", lines.Text(), lines.Err())
			}
		}
		response.Body.Close()
		if err := httpsuite.Receive(t, ended); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		s.WantNone()
	})
}
