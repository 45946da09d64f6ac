package idlehttp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/idlewheel/idlewheel/adapters/idletest"
	"github.com/idlewheel/idlewheel/idle"
)

// TestExplicitUseOfAWebSocket has a client that sends one message and answers pings. It's idle from that message on.
func TestExplicitUseOfAWebSocket(t *testing.T) {
	var ended chan error
	inBubble(t, Timeouts{}, func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.CloseNow()
		if err := Watch(r, idle.Policy{
			ExplicitUse: true,
			IdleTimeout: time.Minute,
			Heartbeat:   idle.Heartbeat{Interval: 10 * time.Second, Timeout: 10 * time.Second},
		}, Callbacks{Ping: func() error { return ws.Ping(context.Background()) }}); err != nil {
			t.Error(err)
		}
		for err == nil {
			if _, _, err = ws.Read(context.Background()); err == nil {
				connOf(r).Use()
			}
		}
		ended <- err
	}, func(t *testing.T, _ *Listener, pipes *idletest.Listener) {
		ended = make(chan error, 1) // in the bubble
		begun := time.Now()
		tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return pipes.DialContext(ctx) }}
		client, _, err := websocket.Dial(t.Context(), "ws://here", &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}})
		if err != nil {
			t.Fatal(err)
		}
		defer client.CloseNow()
		client.CloseRead(t.Context()) // reads, and so answers
		time.Sleep(30 * time.Second)
		if err := client.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		var timeout *idle.TimeoutError
		select {
		case err := <-ended:
			if !errors.As(err, &timeout) || timeout.Reason != idle.ReasonIdle {
				t.Errorf("ended after %v with %v", time.Since(begun), err)
			}
		case <-time.After(61 * time.Second):
			t.Error("it isn't idle")
		}
	})
}
