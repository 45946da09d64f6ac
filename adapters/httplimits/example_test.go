package httplimits_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

// A server for uploads over slow links. What is not set has its default.
func ExampleTimeouts() {
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
	})}
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ln, err := idlehttp.Wrap(server, bare, idlehttp.Timeouts{
		BodyTimeout:      100 * time.Millisecond,                    // for a pause
		BodyRate:         idle.Rate{BytesPerSecond: idlehttp.Off},   // however slow
		HandlerTimeout:   time.Hour,                                 // in all
		KeepAliveTimeout: idlehttp.Off,                              // a client may stay as long as it likes
		Hijacked:         idle.Policy{IdleTimeout: 5 * time.Minute}, // WebSockets
		OnTimeout: func(c net.Conn, err *idle.TimeoutError) bool {
			fmt.Println(err.Phase, err.Setting)
			return false // do not keep the connection
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	go server.Serve(ln)

	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	io.WriteString(client, "POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\nthe rest never comes")
	response, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		log.Fatal(err)
	}
	response.Body.Close()
	fmt.Println(response.Status)
	stats := ln.Stats()
	fmt.Println(stats.Limits["BodyTimeout"], "by BodyTimeout,", stats.Phases["request"], "in a request")
	// Output:
	// request BodyTimeout
	// 408 Request Timeout
	// 1 by BodyTimeout, 1 in a request
}
