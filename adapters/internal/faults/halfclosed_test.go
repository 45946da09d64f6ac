package faults

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idlewheel/idlewheel/adapters/idlehttp"
	"github.com/idlewheel/idlewheel/adapters/internal/simnet"
)

// A client that closes its side after a request gets its response, however much
// longer than all limits the handler takes: nothing is owed by it.
func TestHalfClosedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, answer = time.Second, "late, but here"
		ln := simnet.Listen(simnet.Config{Buffer: 4 << 10, Kernel: simnet.Whole})
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(3 * limit)
			io.WriteString(w, answer)
		})}
		go idlehttp.Serve(s, ln, idlehttp.Timeouts{
			HandshakeTimeout: limit, HeaderTimeout: limit, BodyTimeout: limit, WriteTimeout: limit, KeepAliveTimeout: limit,
		})
		defer s.Close()
		c, err := ln.Dial()
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: faults\r\n\r\n")
		c.CloseWrite()
		if got, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(got), answer) {
			t.Errorf("got %q and %v", got, err)
		}
	})
}
