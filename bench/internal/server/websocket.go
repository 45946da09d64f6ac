package server

import (
	"context"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
)

// echoWebSocket returns a handler that accepts WebSockets and echoes their messages. The library
// has no deadlines, so the variant Own passes a context with a timeout for each message.
func echoWebSocket(c Config) http.Handler {
	var timeout time.Duration
	if c.Variant == Own {
		timeout = c.Own
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		if c.Variant == Ours {
			err = idlehttp.Watch(r, c.Policy, idlehttp.Callbacks{})
		}
		for err == nil {
			err = echoMessage(ws, timeout)
		}
	})
}

// echoMessage echoes one message within a timeout, or without one if it's 0.
func echoMessage(ws *websocket.Conn, timeout time.Duration) error {
	ctx := context.Background()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	kind, message, err := ws.Read(ctx)
	if err != nil {
		return err
	}
	return ws.Write(ctx, kind, message)
}
