package main

import (
	"io"
	"log"
	"net"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
)

func serveFasthttp(variant string, cfg config, ln net.Listener, b *book) error {
	s := &fasthttp.Server{
		Handler: handleFasthttp,
		Logger:  log.New(io.Discard, "", 0),
		ConnState: func(nc net.Conn, state fasthttp.ConnState) {
			switch state {
			case fasthttp.StateNew:
				b.opened()
			case fasthttp.StateClosed:
				b.closed(nc)
			}
		},
	}
	switch variant {
	case ours:
		return idlefasthttp.Serve(s, ln, cfg.fasthttpTimeouts())
	case own:
		cfg.setFasthttp(s)
	}
	return s.Serve(ln)
}

// handleFasthttp answers with as many bytes as the path says. The body has been
// taken before.
func handleFasthttp(ctx *fasthttp.RequestCtx) {
	content, err := find(string(ctx.Path()))
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusNotFound)
		return
	}
	ctx.Response.SetBodyRaw(content)
}
