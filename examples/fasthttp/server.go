package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/examples/internal/ops"
	"github.com/idlewheel/idlewheel/idle"
)

// serve serves on ln, and ends in good order when ctx does.
func serve(ctx context.Context, ln net.Listener, opsAddress string, t idlefasthttp.Timeouts) (idlefasthttp.Stats, error) {
	server := &fasthttp.Server{Handler: handle, StreamRequestBody: true, CloseOnShutdown: true}
	t.OnTimeout = func(c net.Conn, err *idle.TimeoutError) (keep bool) {
		log.Printf("%v: %v", c.RemoteAddr(), err)
		return false
	}
	// Without an interest in the counts, idlefasthttp.Serve(server, ln, t) is all.
	l, err := idlefasthttp.Wrap(server, ln, t)
	if err != nil {
		ln.Close()
		return idlefasthttp.Stats{}, err
	}
	defer l.Close()
	if err := ops.Serve(opsAddress, map[string]*idle.Tracker{"fasthttp": l.Tracker()}); err != nil {
		return idlefasthttp.Stats{}, err
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		patience, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = server.ShutdownWithContext(patience)
	}
	return l.Stats(), err
}

func handle(ctx *fasthttp.RequestCtx) {
	switch string(ctx.Path()) {
	case "/":
		fmt.Fprintln(ctx, "hello,", ctx.RemoteAddr())
	case "/upload":
		upload(ctx)
	case "/slow":
		time.Sleep(min(duration(ctx, "for"), time.Minute))
		fmt.Fprintln(ctx, "at last")
	case "/download":
		size := ctx.QueryArgs().GetUintOrZero("bytes")
		if size == 0 {
			size = 64 << 20
		}
		ctx.SetBodyStream(io.LimitReader(zeros{}, int64(size)), size)
	default:
		ctx.NotFound()
	}
}

// upload counts the bytes of a body as they come.
func upload(ctx *fasthttp.RequestCtx) {
	body := ctx.RequestBodyStream()
	if body == nil {
		ctx.Error("there is no body", fasthttp.StatusBadRequest)
		return
	}
	n, err := io.Copy(io.Discard, body)
	if err != nil { // a timeout has been answered already
		ctx.Error(err.Error(), fasthttp.StatusBadRequest)
		return
	}
	fmt.Fprintln(ctx, "got", n, "bytes")
}

func duration(ctx *fasthttp.RequestCtx, name string) time.Duration {
	d, err := time.ParseDuration(string(ctx.QueryArgs().Peek(name)))
	if err != nil {
		return 2 * time.Second
	}
	return d
}

// zeros is as many of them as one likes.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
