// Command sse serves server-sent events, and shuts down without waiting for their ends.
//
//	go -C examples/recipes run ./sse
//	curl -N http://127.0.0.1:8080/events
//
// A drain waits for requests in progress, and an event stream may go on for hours. The functions
// of http.Server.RegisterOnShutdown come too late to end it: idlehttp.Shutdown calls the
// server's own Shutdown when the drain is over. So the handler also watches a context that ends
// before idlehttp.Shutdown is called. The stream then ends with a retry time, which spreads the
// reconnects. A long poll would be answered as if nothing had happened.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/idle"
)

func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log.Print("serving on http://", ln.Addr())
	if err := serve(ctx, ln); err != nil {
		log.Fatal(err)
	}
}

// serve serves until ctx is done, and then shuts down.
func serve(ctx context.Context, ln net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /events", idlehttp.KeepStream(events(ctx), idlehttp.Comments{Interval: 15 * time.Second, Text: ": \n\n"}))
	server := &http.Server{Handler: mux}
	l, err := idlehttp.Wrap(server, ln, idlehttp.Timeouts{})
	if err != nil {
		return err
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		stopped <- idlehttp.Shutdown(context.Background(), idle.Drain{Duration: 5 * time.Second, ForceAfter: 30 * time.Second}, l)
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// events sends the time every minute.
func events(leaving context.Context) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		out := http.NewResponseController(w)
		w.Header().Set("Content-Type", "text/event-stream")
		if err := out.Flush(); err != nil {
			return
		}
		for {
			select {
			case now := <-time.After(time.Minute):
				fmt.Fprintf(w, "data: %s\n\n", now.Format(time.TimeOnly))
			case <-leaving.Done():
				fmt.Fprintf(w, "retry: %d\n\n", rand.IntN(10_000)) // milliseconds
				return
			case <-r.Context().Done():
				return
			}
			if err := out.Flush(); err != nil {
				return
			}
		}
	}
}
