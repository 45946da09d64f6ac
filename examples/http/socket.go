package main

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

//go:embed page.html
var page []byte

// goodbye is the message that asks a client to close its WebSocket.
const goodbye = "bye"

func (rm *room) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { w.Write(page) })
	mux.HandleFunc("GET /events", rm.events)
	mux.HandleFunc("GET /ws", func(w http.ResponseWriter, r *http.Request) { rm.socket(w, r, "a browser") })
	mux.HandleFunc("GET /mute/ws", func(w http.ResponseWriter, r *http.Request) { rm.socket(w, r, "one that will fall silent") })
	mux.HandleFunc("POST /mute", rm.mute)
	return mux
}

// socket is a WebSocket that is pinged when it is silent, and dropped when it
// stays so.
func (rm *room) socket(w http.ResponseWriter, r *http.Request, name string) {
	rm.live.Add(1)
	defer rm.live.Done()
	m := rm.enter(name, r.RemoteAddr)
	rm.leave(m, rm.talk(w, r, m))
}

// talk returns the error that ends it.
func (rm *room) talk(w http.ResponseWriter, r *http.Request, m *member) error {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		OnPongReceived: func(context.Context, []byte) { rm.heard(m, "answers") },
	})
	if err != nil {
		return err
	}
	defer ws.CloseNow()
	policy := idle.Policy{Name: "websocket", Heartbeat: rm.beat, WriteTimeout: 10 * time.Second}
	err = idlehttp.Watch(r, policy, idlehttp.Callbacks{
		Ping: func() error {
			rm.pinged(m)
			ctx, cancel := context.WithTimeout(context.Background(), rm.beat.Timeout/2) // it's back before the next ping is due, which would be left out
			defer cancel()
			return ws.Ping(ctx)
		},
		// A close frame would cut off what the client sends at this moment. So it's asked to close.
		OnDrain: func() { ws.Write(context.Background(), websocket.MessageText, []byte(goodbye)) },
	})
	if err != nil {
		return err
	}
	err = ws.Write(context.Background(), websocket.MessageText, fmt.Append(nil, m.ID))
	for err == nil {
		var text []byte
		if _, text, err = ws.Read(context.Background()); err == nil {
			rm.heard(m, fmt.Sprintf("says %q", text))
		}
	}
	return err
}

// mute starts a client that answers one ping, and no other: a browser answers
// them all by itself. The client reads what it is sent, so that to the kernel,
// and to TCP's own keep-alive, it looks well.
func (rm *room) mute(w http.ResponseWriter, r *http.Request) {
	var pings atomic.Int32
	ws, _, err := websocket.Dial(r.Context(), rm.url, &websocket.DialOptions{
		OnPingReceived: func(context.Context, []byte) (answer bool) { return pings.Add(1) == 1 },
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	go func() {
		defer ws.CloseNow()
		var text []byte
		for err == nil && string(text) != goodbye {
			_, text, err = ws.Read(context.Background())
		}
	}()
}
