package idlefasthttp

import (
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
)

// hello is the usual handler.
func hello(ctx *fasthttp.RequestCtx) { fmt.Fprintf(ctx, "%s %d", ctx.Path(), len(ctx.PostBody())) }

// io.EOF is fasthttp's sign for the end.
func TestServeEndsWithEOF(t *testing.T) {
	if err := Serve(&fasthttp.Server{Handler: hello, Logger: mute}, ended{httpsuite.Listen(t)}, Timeouts{}); err != nil {
		t.Error(err)
	}
}

type ended struct{ net.Listener }

func (ended) Accept() (net.Conn, error) { return nil, io.EOF }
