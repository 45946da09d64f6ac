package idlefasthttp_test

import (
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/idlewheel/idlewheel/adapters/idlefasthttp"
	"github.com/idlewheel/idlewheel/adapters/internal/smoke"
)

func TestSmoke(t *testing.T) {
	server := &fasthttp.Server{Handler: hello}
	ln := listen()
	defer server.Shutdown()
	go idlefasthttp.Serve(server, ln, idlefasthttp.Timeouts{KeepAliveTimeout: smoke.Limit})
	smoke.Run(t, "tcp", ln.Addr().String(), smoke.Get)
}
