//go:build proof

package idlefasthttp

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/internal/httpsuite"
	"github.com/idlewheel/idlewheel/idle"
)

// TestDrainAsksByAnyResponse: what a handler does to its response does not keep the client
// from being asked to close the connection.
func TestDrainAsksByAnyResponse(t *testing.T) {
	for name, respond := range map[string]fasthttp.RequestHandler{
		"Error":    func(ctx *fasthttp.RequestCtx) { ctx.Error("no", fasthttp.StatusTeapot) },
		"NotFound": func(ctx *fasthttp.RequestCtx) { ctx.NotFound() },
		"TimeoutHandler": fasthttp.TimeoutHandler(func(ctx *fasthttp.RequestCtx) {
			time.Sleep(limit)
			ctx.Response.Header.Set("X-Late", "yes")
		}, ms, "late"),
	} {
		t.Run(name, func(t *testing.T) {
			httpsuite.Both(t, func(t *testing.T, secure bool) {
				begun, goOn := make(chan bool, 10), make(chan bool)
				s := start(t, secure, &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
					begun <- true
					<-goOn
					respond(ctx)
				}}, Timeouts{})
				c := s.Dial()
				c.Send(httpsuite.Get("/") + httpsuite.Get("/")) // the second one is told before its handler runs
				httpsuite.Receive(t, begun)
				ended := make(chan error, 1)
				go func() { ended <- s.Setup.Drain(context.Background(), idle.Drain{}) }()
				httpsuite.Eventually(t, "it is told", func() bool { return s.Setup.Told() == 1 })
				close(goOn)
				r := c.Response()
				if io.Copy(io.Discard, r.Body); !r.Close {
					t.Errorf("a response with status %d does not ask to close the connection", r.StatusCode)
				}
				if err := httpsuite.Receive(t, ended); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
