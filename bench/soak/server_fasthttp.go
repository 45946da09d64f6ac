package main

import (
	"bufio"
	"io"
	"log"
	"net"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/idle"
)

func startFasthttp(s *server) error {
	h := &fasthttp.Server{
		Handler: fastPages, Logger: log.New(io.Discard, "", 0),
		MaxIdleWorkerDuration: limit, // or idle goroutines pass for a leak for 10 s
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	t := fasthttpTimeouts()
	t.OnTimeout = func(c net.Conn, err *idle.TimeoutError) bool {
		s.ledger.timedOut(c.RemoteAddr(), err.Reason)
		return false
	}
	l, err := idlefasthttp.NewListener(h, ln, t)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { defer close(ended); h.Serve(l) }()
	s.address, s.lives = ln.Addr().String(), httpLives()
	s.stats = func() idle.Stats { return l.Stats().Stats }
	s.stop = func() error {
		err := h.Shutdown()
		<-ended
		return err
	}
	return nil
}

func fastPages(ctx *fasthttp.RequestCtx) {
	if string(ctx.Path()) != pathStream {
		ctx.WriteString(pageText)
		return
	}
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		for {
			if _, err := w.Write(stream[:64<<10]); err != nil {
				return
			}
		}
	})
}
