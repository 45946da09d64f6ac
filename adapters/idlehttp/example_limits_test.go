package idlehttp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

// A server reloads its configuration. Connections that are open follow.
func ExampleListener_SetTimeouts() {
	server := &http.Server{Handler: http.NotFoundHandler()}
	ln, err := idlehttp.Wrap(server, listen(), idlehttp.Timeouts{KeepAliveTimeout: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	go server.Serve(ln)

	client := dial(ln)
	defer client.Close()
	io.WriteString(client, "GET / HTTP/1.1\r\nHost: here\r\n\r\n")
	in := bufio.NewReader(client)
	if _, err := http.ReadResponse(in, nil); err != nil {
		log.Fatal(err)
	}

	fmt.Println(ln.SetTimeouts(idlehttp.Timeouts{KeepAliveTimeout: -5}))
	if err := ln.SetTimeouts(idlehttp.Timeouts{KeepAliveTimeout: 100 * time.Millisecond}); err != nil {
		log.Fatal(err)
	}
	io.Copy(io.Discard, in) // until the end of the connection
	fmt.Println(ln.Stats().Limits["KeepAliveTimeout"], "by KeepAliveTimeout")
	// Output:
	// idlehttp: KeepAliveTimeout is -5ns; use 0 for the default of 1m15s, or Off to disable it
	// 1 by KeepAliveTimeout
}

// A route for uploads over bad links is more patient than the rest of the server. In
// HTTP/2 this is about the stream, and others on the connection keep the server's limits.
func ExampleSetLimits() {
	upload := func(w http.ResponseWriter, r *http.Request) {
		err := idlehttp.SetLimits(r, idlehttp.RequestLimits{
			BodyTimeout: 10 * time.Minute,                                      // for a pause
			BodyRate:    idle.Rate{BytesPerSecond: 50, Grace: 5 * time.Minute}, // on average
		})
		if err != nil {
			log.Print(err)
		}
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return
		}
		fmt.Fprint(w, n, " bytes")
	}
	server := &http.Server{Handler: http.HandlerFunc(upload)}
	ln := listen()
	defer server.Close()
	go idlehttp.Serve(server, ln, idlehttp.Timeouts{BodyTimeout: 100 * time.Millisecond})

	client := dial(ln)
	defer client.Close()
	io.WriteString(client, "POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 10\r\n\r\nhello")
	time.Sleep(300 * time.Millisecond)
	io.WriteString(client, "world")
	response, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		log.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	fmt.Println(response.Status, string(body))
	// Prints: 200 OK 10 bytes
}

// Server-sent events that may be silent for hours. Comments keep the connection awake, and
// find clients that have vanished. The route has limits of its own.
func ExampleKeepStream() {
	news := make(chan string)
	events := func(w http.ResponseWriter, r *http.Request) {
		err := idlehttp.SetLimits(r, idlehttp.RequestLimits{WriteTimeout: 10 * time.Second})
		if err != nil {
			log.Print(err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w).Flush
		for err := flush(); err == nil; err = flush() {
			select {
			case <-r.Context().Done(): // the client has left, or has vanished
				return
			case text := <-news:
				fmt.Fprintf(w, "data: %s\n\n", text)
			}
		}
	}
	mux := http.NewServeMux()
	comments := idlehttp.Comments{Interval: 50 * time.Millisecond, Text: ": still there\n\n"} // 15 s in earnest
	mux.Handle("/events", idlehttp.KeepStream(http.HandlerFunc(events), comments))
	server := &http.Server{Handler: mux}
	ln := listen()
	defer server.Close()
	go idlehttp.Serve(server, ln, idlehttp.Timeouts{})

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, "GET", "http://"+ln.Addr().String()+"/events", nil)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Scan()
	fmt.Println(lines.Text())
	news <- "rain"
	for lines.Scan() {
		if text := lines.Text(); text != "" && text[0] != ':' {
			fmt.Println(text)
			break
		}
	}
	// Output:
	// : still there
	// data: rain
}
