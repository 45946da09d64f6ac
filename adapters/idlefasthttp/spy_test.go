package idlefasthttp

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// A spy notes what a bare fasthttp server does, its calls of hooks among that.
type spy struct {
	httpsuite.Diary
	log httpsuite.Journal // of the server
}

// seen returns what has happened.
func (p *spy) seen() []string { return p.Entries("read: ") }

// wants waits for events, and checks that they are the given ones.
func (p *spy) wants(t testing.TB, events ...string) {
	t.Helper()
	p.Wants(t, strings.Join(events, ", "), "read: ")
}

// bare serves f as it is, until the test ends. It speaks TLS if it has a TLSConfig.
func bare(t testing.TB, f *fasthttp.Server, p *spy) *site {
	t.Helper()
	handler, state, header := f.Handler, f.ConnState, f.HeaderReceived
	if handler == nil {
		handler = hello
	}
	f.Handler = func(ctx *fasthttp.RequestCtx) {
		p.Note("handler")
		handler(ctx)
	}
	f.ConnState = func(nc net.Conn, to fasthttp.ConnState) {
		p.Note("%v", to)
		if state != nil {
			state(nc, to)
		}
	}
	f.HeaderReceived = func(h *fasthttp.RequestHeader) (c fasthttp.RequestConfig) {
		p.Note("header %d", h.ContentLength())
		if header != nil {
			c = header(h)
		}
		return c
	}
	secure := f.TLSConfig != nil
	return &site{httpsuite.Start(t, secure, func(_ io.Writer, idle func()) (httpsuite.Setup, error) {
		return bareSetup(f, p.Spy(httpsuite.Listen(t)), httpsuite.Config{Log: &p.log, Idle: idle}, secure), nil
	}), f}
}
