package idlehttp_test

import (
	"bufio"
	"io"
	"net"
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
