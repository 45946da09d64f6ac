package idlehttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

// dial connects to a listener.
func dial(ln net.Listener) net.Conn {
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	return nc
}

// listen returns a listener on a free port.
func listen() net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	return ln
}

// The zero Timeouts are safe defaults. Here a header has to come sooner.
func ExampleServe() {
	server := &http.Server{Handler: http.NotFoundHandler()}
	ln := listen()
	defer server.Close()
	go idlehttp.Serve(server, ln, idlehttp.Timeouts{HeaderTimeout: 100 * time.Millisecond})

	client := dial(ln)
	defer client.Close()
	io.WriteString(client, "GET / HTTP/1.1\r\nX: this header has no e")
	line, err := bufio.NewReader(client).ReadString('\n')
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(line)
	// Output: HTTP/1.1 408 Request Timeout
}

// Wrap is for servers that want to know what has timed out. Shutdown is the
// server's own; timeouts go on while it waits for requests.
func ExampleWrap_shutdown() {
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello")
	})}
	bare := listen()
	ln, err := idlehttp.Wrap(server, bare, idlehttp.Timeouts{
		OnTimeout: func(c net.Conn, err *idle.TimeoutError) (keep bool) {
			log.Print(c.RemoteAddr(), ": ", err)
			return false
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- server.Serve(ln) }()

	response, err := http.Get("http://" + ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	io.Copy(io.Discard, response.Body)
	response.Body.Close()

	patience, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := server.Shutdown(patience); err != nil {
		server.Close() // what is left
	}
	fmt.Println(<-served)
	stats := ln.Stats()
	fmt.Println(stats.Tracked, "connection, headers that took too long:", stats.Limits["HeaderTimeout"])
	// Prints:
	// http: Server closed
	// 1 connection, headers that took too long: 0
}

// A WebSocket is watched once it is accepted. It is pinged when it is silent, and ends
// when it does not answer.
func ExampleWatch() {
	ended := make(chan error)
	handler := func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		err = idlehttp.Watch(r, idle.Policy{
			Name:      "websocket",
			Heartbeat: idle.Heartbeat{Interval: 50 * time.Millisecond, Timeout: 50 * time.Millisecond, Misses: 2},
		}, idlehttp.Callbacks{Ping: func() error { return ws.Ping(context.Background()) }})
		if err != nil {
			log.Print(err)
			return
		}
		_, _, err = ws.Read(context.Background())
		ended <- err
	}
	server := &http.Server{Handler: http.HandlerFunc(handler)}
	ln := listen()
	defer server.Close()
	go idlehttp.Serve(server, ln, idlehttp.Timeouts{})

	client, _, err := websocket.Dial(context.Background(), "ws://"+ln.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.CloseNow() // it never reads, and so answers no ping
	var timeout *idle.TimeoutError
	if errors.As(<-ended, &timeout) {
		fmt.Println(timeout.Phase, timeout.Setting)
	}
	// Output: websocket Heartbeat
}
