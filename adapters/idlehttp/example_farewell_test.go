package idlehttp_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

// A WebSocket that has been idle for too long is told so. OnEnd does not wait for an
// answer, so it sends a message and not the close handshake.
func ExampleWatch_farewell() {
	handler := func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		err = idlehttp.Watch(r, idle.Policy{IdleTimeout: 50 * time.Millisecond}, idlehttp.Callbacks{
			OnEnd: func(err *idle.TimeoutError) {
				farewell, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				ws.Write(farewell, websocket.MessageText, []byte("bye: "+err.Setting))
			},
		})
		if err != nil {
			log.Print(err)
			return
		}
		ws.Read(context.Background())
	}
	server := &http.Server{Handler: http.HandlerFunc(handler)}
	ln := listen()
	defer server.Close()
	go idlehttp.Serve(server, ln, idlehttp.Timeouts{})

	client, _, err := websocket.Dial(context.Background(), "ws://"+ln.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.CloseNow()
	_, message, err := client.Read(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(message))
	// Prints: bye: IdleTimeout
}
