package main

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

// goodbye asks a client to close its WebSocket.
const goodbye = "bye"

// echo is a WebSocket that returns what it's sent.
func echo(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer ws.CloseNow()
	ctx := context.Background()
	err = idlehttp.Watch(r, idle.Policy{
		Name:         "websocket",
		Heartbeat:    idle.Heartbeat{Interval: 30 * time.Second, Timeout: 10 * time.Second, Misses: 2},
		WriteTimeout: 10 * time.Second,
	}, idlehttp.Callbacks{
		Ping: func() error { // it waits for the pong, and mustn't outlast Timeout, or the next ping is left out
			brief, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			return ws.Ping(brief)
		},
		// A close frame would cut off what the client is sending, so the client is asked to close.
		OnDrain: func() { ws.Write(ctx, websocket.MessageText, []byte(goodbye)) },
	})
	for err == nil {
		var kind websocket.MessageType
		var message []byte
		if kind, message, err = ws.Read(ctx); err == nil {
			err = ws.Write(ctx, kind, message)
		}
	}
	log.Printf("%s: the WebSocket has ended: %v", r.RemoteAddr, err)
}
