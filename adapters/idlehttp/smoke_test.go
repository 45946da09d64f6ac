package idlehttp_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/internal/smoke"
)

func TestSmoke(t *testing.T) {
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })}
	ln := listen()
	defer server.Close()
	go idlehttp.Serve(server, ln, idlehttp.Timeouts{KeepAliveTimeout: smoke.Limit})
	smoke.Run(t, "tcp", ln.Addr().String(), smoke.Get)
}
