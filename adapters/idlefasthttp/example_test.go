package idlefasthttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
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

func hello(ctx *fasthttp.RequestCtx) { ctx.WriteString("hello") }

// The zero Timeouts are safe defaults. Here a header has to come sooner.
func ExampleServe() {
	server := &fasthttp.Server{Handler: hello}
	ln := listen()
	defer server.Shutdown()
	go idlefasthttp.Serve(server, ln, idlefasthttp.Timeouts{HeaderTimeout: 100 * time.Millisecond})

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
	server := &fasthttp.Server{Handler: hello}
	ln, err := idlefasthttp.Wrap(server, listen(), idlefasthttp.Timeouts{
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

	var client fasthttp.Client
	defer client.CloseIdleConnections()
	_, body, err := client.Get(nil, "http://"+ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(body))

	patience, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := server.ShutdownWithContext(patience); err != nil {
		log.Print(err)
	}
	fmt.Println(<-served)
	stats := ln.Stats()
	fmt.Println(stats.Tracked, "connection, headers that took too long:", stats.Limits["HeaderTimeout"])
	// Prints:
	// hello
	// <nil>
	// 1 connection, headers that took too long: 0
}

// A connection that was hijacked, such as a WebSocket, is watched by its handler. It is
// pinged when it is silent, and ends when it does not answer.
func ExampleWatch() {
	var ln *idlefasthttp.Listener
	ended := make(chan error)
	serve := func(conn net.Conn) {
		err := idlefasthttp.Watch(conn, idle.Policy{
			Name:      "chat",
			Heartbeat: idle.Heartbeat{Interval: 50 * time.Millisecond, Timeout: 50 * time.Millisecond, Misses: 2},
		}, idlefasthttp.Callbacks{Ping: func() error { _, err := io.WriteString(conn, "ping\n"); return err }})
		if err != nil {
			log.Print(err)
			return
		}
		_, err = io.Copy(io.Discard, conn)
		ended <- err
	}
	server := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.SetStatusCode(fasthttp.StatusSwitchingProtocols)
		ctx.Hijack(serve)
	}}
	var err error
	if ln, err = idlefasthttp.Wrap(server, listen(), idlefasthttp.Timeouts{}); err != nil {
		log.Fatal(err)
	}
	defer server.Shutdown()
	go server.Serve(ln)

	client := dial(ln)
	defer client.Close()
	io.WriteString(client, "GET / HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n")
	var timeout *idle.TimeoutError
	if errors.As(<-ended, &timeout) { // the client answers no ping
		fmt.Println(timeout.Phase, timeout.Setting)
	}
	// Output: chat Heartbeat
}
