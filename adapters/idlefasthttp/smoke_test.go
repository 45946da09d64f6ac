package idlefasthttp_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
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
	smoke.Run(t, "tcp", ln.Addr().String(), func(c net.Conn) error {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	})
}
