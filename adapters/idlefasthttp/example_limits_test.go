package idlefasthttp_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/idle"
)

// A server reloads its configuration. Connections that are open follow.
func ExampleListener_SetTimeouts() {
	server := &fasthttp.Server{Handler: hello}
	ln, err := idlefasthttp.Wrap(server, listen(), idlefasthttp.Timeouts{KeepAliveTimeout: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Shutdown()
	go server.Serve(ln)

	client := dial(ln)
	defer client.Close()
	io.WriteString(client, "GET / HTTP/1.1\r\nHost: here\r\n\r\n")
	in := bufio.NewReader(client)
	if _, err := http.ReadResponse(in, nil); err != nil {
		log.Fatal(err)
	}

	fmt.Println(ln.SetTimeouts(idlefasthttp.Timeouts{KeepAliveTimeout: -5}))
	if err := ln.SetTimeouts(idlefasthttp.Timeouts{KeepAliveTimeout: 100 * time.Millisecond}); err != nil {
		log.Fatal(err)
	}
	io.Copy(io.Discard, in) // until the end of the connection
	fmt.Println(ln.Stats().Limits["KeepAliveTimeout"], "by KeepAliveTimeout")
	// Output:
	// idlefasthttp: KeepAliveTimeout is -5ns; use 0 for the default of 1m15s, or Off to disable it
	// 1 by KeepAliveTimeout
}

// A route for uploads over bad links is more patient than the rest of the server. The
// handler has to run before the body has been read, so the server streams bodies. It reads
// as much as MaxRequestBodySize, but not more than 8 KiB, before it calls the handler.
func ExampleSetLimits() {
	var ln *idlefasthttp.Listener
	upload := func(ctx *fasthttp.RequestCtx) {
		err := idlefasthttp.SetLimits(ctx, idlefasthttp.RequestLimits{
			BodyTimeout: 10 * time.Minute,                                      // for a pause
			BodyRate:    idle.Rate{BytesPerSecond: 50, Grace: 5 * time.Minute}, // on average
		})
		if err != nil {
			log.Print(err)
		}
		n, err := io.Copy(io.Discard, ctx.RequestBodyStream())
		if err != nil {
			return
		}
		fmt.Fprint(ctx, n, " bytes")
	}
	server := &fasthttp.Server{Handler: upload, StreamRequestBody: true, MaxRequestBodySize: 10}
	var err error
	if ln, err = idlefasthttp.Wrap(server, listen(), idlefasthttp.Timeouts{BodyTimeout: 100 * time.Millisecond}); err != nil {
		log.Fatal(err)
	}
	defer server.Shutdown()
	go server.Serve(ln)

	client := dial(ln)
	defer client.Close()
	io.WriteString(client, "POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 20\r\n\r\nhello hello")
	time.Sleep(300 * time.Millisecond)
	io.WriteString(client, " world!!!")
	response, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		log.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	fmt.Println(response.Status, string(body))
	// Prints: 200 OK 20 bytes
}
