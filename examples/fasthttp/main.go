// Command fasthttp is a fasthttp server that slow clients can't hold.
//
//	go run ./examples/fasthttp
//	curl -i http://127.0.0.1:9004
//	nc 127.0.0.1 9004       # type nothing, and the server disconnects you after 10 seconds
//
// SIGTERM or Ctrl-C calls fasthttp's own Shutdown, which closes idle connections and waits for requests.
// Their limits go on meanwhile, so a slow client can't hold it up.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
)

func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:9004")
	if err != nil {
		log.Fatal(err)
	}
	log.Print("serving on ", ln.Addr())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, ln, idlefasthttp.Timeouts{}); err != nil {
		log.Fatal(err)
	}
}

// serve serves until ctx is done, and then shuts down. Without the shutdown, it would
// only call idlefasthttp.Serve(server, ln, t).
func serve(ctx context.Context, ln net.Listener, t idlefasthttp.Timeouts) error {
	server := &fasthttp.Server{Handler: handle, StreamRequestBody: true, CloseOnShutdown: true}
	l, err := idlefasthttp.Wrap(server, ln, t)
	if err != nil {
		return err
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.ShutdownWithContext(patience)
}

// handle counts the bytes of a body as they come.
func handle(ctx *fasthttp.RequestCtx) {
	var n int64
	var err error
	if body := ctx.RequestBodyStream(); body != nil {
		n, err = io.Copy(io.Discard, body)
	}
	if err != nil { // a timeout has been answered
		ctx.Error(err.Error(), fasthttp.StatusBadRequest)
		return
	}
	fmt.Fprintf(ctx, "hello %v, your body has %d bytes\n", ctx.RemoteAddr(), n)
}
