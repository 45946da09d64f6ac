//go:build linux && !386 && !s390x

package idlehttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

// sendEvents returns a handler that sends events until that fails, and then sends why.
func sendEvents(ended chan<- error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		event := []byte("data: " + strings.Repeat("x", 1000) + "\n\n")
		for {
			if _, err := w.Write(event); err != nil {
				ended <- err
				return
			}
		}
	}
}

// subscribe asks for events at an address, and reads none.
func subscribe(address string) net.Conn {
	client, err := net.Dial("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	io.WriteString(client, "GET / HTTP/1.1\r\nHost: here\r\n\r\n")
	return client
}

// When memory runs short, a server ends the clients for which most bytes wait.
func Example_mostUnsent() {
	ended := make(chan error, 1)
	server := &http.Server{Handler: sendEvents(ended)}
	ln, err := idlehttp.Wrap(server, listen(), idlehttp.Timeouts{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	go server.Serve(ln)

	defer subscribe(ln.Addr().String()).Close()
	ctx := context.Background()
	type client struct {
		idle.Info
		bytes int
	}
	for over := false; !over; time.Sleep(time.Millisecond) { // such as a use of memory that is too high
		var slow []client
		if err := ln.Tracker().Visit(ctx, func(i idle.Info) {
			if n := i.Unsent(); n > 0 {
				slow = append(slow, client{i, n})
			}
		}); err != nil {
			log.Fatal(err)
		}
		slices.SortFunc(slow, func(a, b client) int { return b.bytes - a.bytes })
		for _, c := range slow[:min(len(slow), 100)] {
			c.End("memory")
			over = true
		}
	}
	var timeout *idle.TimeoutError
	if errors.As(<-ended, &timeout) {
		fmt.Println(timeout.Cause)
	}
	// Prints: memory
}
